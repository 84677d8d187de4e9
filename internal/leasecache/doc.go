// Package leasecache puts a cache of leases in front of a store. The cache is a tier of its
// own in the tree of leases: it stands between holders and a store that is a network
// away.
//
// For each key it keeps a [lease.Relay], which is one holder of the store and the
// granter of all callers of the cache. The cache cuts leases for its callers out of its
// own leases, and refuses from memory what the store has denied. So a flood on one key
// costs the store a few asks per second, and a hot key that is far from its limit is
// served from memory. A lease never outlives the one that it was cut from, so the limits
// hold as they do without the cache.
//
// The files in the order in which a call passes through them:
//
//	acquire.go   Acquire: each ask finds its key, and a lease or a denial answers it
//	key.go       the entry of a key, under the lock of its shard
//	wait.go      what memory does not answer waits for the store
//	budget.go    when the store may be asked for the key
//	ask.go       the asks of a call go to the store in a batch
//	reply.go     the store's grant goes to those who wait; the rest is kept
//	agenda.go    what the store is asked for later, behind the callers
//	run.go       the goroutines that do so, and that forget idle keys
//
// and what only some asks need:
//
//	group.go, joint.go      asks of one request: all or none
//	peek.go                 asks that only read what is left
//	exact.go                keys for which requests bring limits of their own
//	debt.go                 units that a caller admitted without a lease
//	returns.go              units on their way back to the store
//	slots.go                requests for the slots of a Concurrency limit
//	room.go                 what happens when the cache is full
//	failure.go              decisions while the store does not answer
//	drain.go                the orderly end
//
// The number of asks for a key is bounded (budget.go). While the store does not answer,
// a key is asked for ten times a second. Asks in between are unavailable at once, and
// [Store.Fall] decides by on_failure.
//
// Grants of exact rules are never cached. Requests and peeks of an exact rule wait for a
// store call that starts after they arrive.
//
// When the cache is full it evicts a key that has not been used recently: the leases of
// the key go back to the store, and it is asked for again. Statements of concurrency holders
// go to the store as they are, and so do asks for a key for which no other key can be
// evicted. On SIGTERM, [Store.Drain] returns the unspent leases.
package leasecache
