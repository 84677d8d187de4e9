// Package engine is the contract of a store of counters, without a transport.
//
//	Store      keeps counters and decides (store.go); one for each scope (scopes.go)
//	Policy     the limit of a rule; a key's counter belongs to a policy (policy.go, share.go)
//	Judge      decides whole requests for clients that cannot: by the store or, if
//	           it does not answer, by on_failure (decide.go, judge.go)
//
// Each store is a package and passes enginetest: memory, Redis, and leasecache, which puts a cache of leases in front of
// another store and, for a Judge, remembers denials.
package engine
