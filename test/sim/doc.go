// Package sim runs a tree of Weir's tiers in one process under virtual time, and checks
// what Weir promises after every step.
//
// The tiers are the product: a PoP is [edge.Worker] over shared memory, a region is
// [limiter.Handler] over [memory.Store], with a [front.Store] for each replica in between
// if a run has relays. Between tiers travel the bytes of the wire. What is simulated is
// everything round the tiers: clocks, network, restarts, clients. Requests of several
// rules are decided by rounds.Group, which Redis runs as well.
//
//	load.go, world.go    clients, and the order of events
//	pop.go, shared.go    a PoP: its workers and the memory that they share
//	network.go           calls and replies on their way: delay, loss, copies
//	region.go, link.go   the replicas of the region, and their way to the counters
//	referee.go, ...      the checks
//	fault.go             what is broken on purpose, round the product
//
// The checks see what crosses a border: requests and verdicts, calls and replies, asks
// and grants of a store, and the pages of a PoP's table before and after an event. A
// [referee] follows every unit from the grant to the request that it admitted.
//
// Without relays a run is a function of its [Config] and seed. With relays it runs in a
// bubble of testing/synctest, and one event is over before the next begins. What happens
// at one instant is put in order, but a lease cache has random numbers of its own (jitter,
// and which key it evicts), so that a seed plays nearly the same run again, not the same.
package sim
