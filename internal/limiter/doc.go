// Package limiter is the region's service: what PoPs ask for is checked, named
// and put before a [Store], and the answer is worded.
//
//	Handler    HTTP and gRPC to messages            (handler.go)
//	Service    checks a call, drops a repeated one, asks the store (service.go);
//	           the slots of requests                (slot.go)
//	Judge      decides on whole requests, for clients that cannot: by the store or,
//	           where that does not answer, by on_failure (decide.go, judge.go)
//	Store      keeps counters and decides           (store.go: the contract)
//
// Stores are in packages of their own: memory, and front, which puts a cache of
// leases in front of any other and remembers, for a Judge, what was denied. Every
// one passes limitertest.
package limiter
