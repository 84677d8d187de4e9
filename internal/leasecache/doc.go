// Package leasecache puts a cache of leases in front of a store. It stands between holders and a
// store across the network, as a holder of the store and a granter of its callers.
//
// For each key it keeps a [relay.Relay], which is one holder of the store and the
// granter of all callers of the cache. The cache cuts leases for its callers out of its
// own leases, and denies from memory the asks that the store has denied. So a flood on one key
// costs the store a few asks per second, and a hot key that is far from its limit is
// served from memory. A lease never outlives the one that it was cut from, so the limits
// hold as they do without the cache.
//
// Beside its relay a key has a queue of wants that wait for the next reply of the store.
// Everything else follows from these two. The files in the order in which a call passes
// through them:
//
//	acquire.go   Acquire: each ask finds its key, and a lease or a denial answers it
//	key.go       the entry of a key, under the lock of its shard; what happens when the cache is full
//	wait.go      an ask without an answer in memory waits for the store
//	ask.go       the asks of a call go to the store in a batch
//	reply.go     the store's grant goes to the waiting asks; the rest is kept
//	timers.go    later asks of the store, behind the callers
//
// and what only some asks need:
//
//	group.go     asks of one request: all or none
//	brought.go   keys for which requests bring limits of their own
//	failure.go   decisions while the store does not answer, and debts of callers
//	returns.go   units on their way back to the store, and the orderly end
//
// One ask for a key is out at a time. Behind the callers a key is asked for a lease interval
// after the last reply at the earliest. While the store does not answer, a key is asked for
// ten times a second. Asks in between are unavailable at once, and [Store.Fall] decides by
// on_failure.
//
// The asks of one request go to the store at once, those of exact rules together. If one is
// denied, the units of the others go back: to the leases they were cut from, or to the store.
//
// Grants of exact rules are never cached. Requests and peeks of an exact rule wait for a
// store call that starts after they arrive.
//
// When the cache is full it evicts a key that has not been used recently: the leases of
// the key go back to the store, and it is asked for again. Statements of concurrency holders
// go to the store as they are, and so do asks for a key for which no other key can be
// evicted. A denied request for slots is remembered as that of an exact rule. On SIGTERM,
// [Store.Drain] returns the unspent leases.
package leasecache
