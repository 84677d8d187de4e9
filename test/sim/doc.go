// Package sim runs a tree of Weir's tiers in one process under virtual time, and checks
// what Weir promises after every step.
//
// The tiers are the product: a PoP is [edge.Worker] over shared memory, a [tier] is
// [service.Handler] over [memory.Store] or over [leasecache.Store], the lease cache of a
// replica. What is simulated is everything round the tiers: clocks, network, restarts,
// clients. Requests of several rules are decided by rounds.Group, which Redis runs as well.
//
// Every holder has a [link] to the tier above it, and every message is a [call] on a link,
// whether bytes of the wire travel or the asks of a store:
//
//	clients ─▶ pop ─link─▶ tier ─link─▶ ... ─link─▶ the tier that has the counters
//
// so that tiers stand above each other as often as a run likes.
//
//	load.go, world.go     clients, and the order of events
//	pop.go, shared.go     a PoP: its workers and the memory that they share
//	flight.go             the calls of a PoP: the bytes of the wire
//	wired.go              the calls of a region: likewise
//	link.go               a call on its way up, its answer down: delay, loss, copies
//	tier.go, counters.go  what answers a call
//	mail.go, crew.go      goroutines of the product in step with events
//	referee.go, book.go   the ledger: every unit from the grant to the request
//	region.go, reserve.go a region with a reserve, and what has to hold of that
//	promises.go, alone.go what has to hold of the ledger
//	trail.go, forget.go   so much of it as is still open
//	fault.go, mishap.go   what is broken on purpose, and what goes wrong
//
// The ledger is kept from what crosses a border: requests and verdicts, calls and replies,
// asks and grants of a store, and the pages of a PoP's table before and after an event.
//
// Without relays a run is a function of its [Config] and seed. With relays it runs in a
// bubble of testing/synctest, and one event is over before the next begins. What happens
// at one instant is put in order, but a lease cache has random numbers of its own (jitter,
// and which key it evicts), so that a seed plays nearly the same run again, not the same.
package sim
