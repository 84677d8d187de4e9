// Package upstream is the region's side of its reserve: what a replica does with wants of shared limits that the
// aggregator does not decide on. The rules are those of package reserve, the calls of the aggregator those of
// package client.
//
//	keeper.go    the record of the reserve: renounced, stated, and permission asked of it
//	record.go    the record in the region's store: read, put right, written
//	undecided.go whether wants are decided in time
//	store.go     Acquire: the aggregator first, then the reserve
//	take.go      an ask that is answered by the reserve, or by the trickle
//	returns.go   what comes back goes to the counter that granted it
//	counters.go  the counters of the reserve and of the trickle
//	denials.go   keys of which nothing came in a moment ago
package upstream
