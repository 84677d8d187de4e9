// Package limiter is the service of a tier: it checks the wants of holders, asks a [Store]
// for them, and answers.
//
//	Handler    HTTP and gRPC to messages (handler.go, message.go)
//	Service    checks a call, drops a repeated one, asks the store (service.go,
//	           exchange.go, check.go, holders.go); the slots of requests (slot_call.go)
//	Judge      decides on whole requests, for clients that cannot: by the store or, if
//	           that does not answer, by on_failure (decide.go, judge.go)
//	Store      keeps counters and decides (store.go: the contract)
//
// Stores are in packages of their own: memory, and front, which puts a cache of leases in
// front of any other store and, for a Judge, remembers denials. Every store passes
// limitertest.
package limiter
