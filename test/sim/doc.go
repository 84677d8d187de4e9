// Package sim checks what Weir promises after every step of a run in virtual time.
//
// The tiers are the product, and package world has them decide in one process: clocks, network,
// restarts and clients are simulated, and a run can be played again. This package is what looks on:
//
//	world.go, load.go     a run, and its clients
//	rules.go              its rules, each of which counts by a header of its own
//	pop.go, calls.go      a PoP and the calls on their way, as the referee reads them
//	tier.go, counters.go  a tier that grants, and the one that has the counters
//	referee.go, book.go   the ledger: every unit from the grant to the request
//	region.go, reserve.go a region with a reserve, and what has to hold of that
//	promises.go, alone.go what has to hold of the ledger
//	fault.go, mishap.go   what is broken on purpose, and what goes wrong
//
// The ledger is kept from what crosses a border: requests and verdicts, calls and replies,
// asks and grants of a store, and the pages of a PoP's table before and after an event. [World] is
// the [world.Observer] of them all.
package sim
