// Weir's Envoy filter as a dynamic module, a shared library that Envoy loads into its own process:
//
//	go build -buildmode=c-shared -o bin/weir.so ./wasmfilter/native
//
// What the filter decides is in package filter, which the WASM module shares. This is its adapter to the ABI of Envoy's
// dynamic modules, whose functions abi.h declares. RATIONALE.md has the reason why there are two.
//
// # Threads
//
// Each configuration of the filter has a [worker] per worker thread of Envoy and one for the main thread, which does the
// background work. A worker has one mutex. A request is decided on its own thread; ticks and the answers of the region run
// on the main thread, because Envoy makes calls outside of a request only there. They hold the mutex of the worker that
// they are for. A request that waited is finished on its own thread: its scheduler wakes it.
//
// No lock is held while Envoy answers, resumes or calls: each of these may run other hooks before it returns.
//
// There is no sandbox. Each hook and each goroutine recovers from panics. What Envoy passes is copied before a hook
// returns. No map is shared between threads without a lock.
package main

import "C"

// main is not called: Envoy calls the hooks of abi.c.
func main() {}
