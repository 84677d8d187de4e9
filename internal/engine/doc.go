// Package engine is the contract of a store of counters, without a transport.
//
//	Store      keeps counters and decides (store.go); one for each scope (scopes.go)
//	Policy     the limit of a rule, of which a key's counter is one (policy.go, share.go)
//	Judge      decides on whole requests, for clients that cannot: by the store or, if
//	           that does not answer, by on_failure (decide.go, judge.go)
//
// Stores are in packages of their own, and every store passes enginetest: memory, Redis, and
// leasecache, which puts a cache of leases in front of any other store and, for a Judge,
// remembers denials.
package engine
