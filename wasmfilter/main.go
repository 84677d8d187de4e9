//go:build wasip1

// Weir's Envoy filter, a Proxy-Wasm module:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o bin/weir.wasm ./wasmfilter
package main

// Importing the filter exports its callbacks to Envoy.
import _ "github.com/weirlimit/weir/wasmfilter/filter"

// main is not called: Envoy calls the exports.
func main() {}
