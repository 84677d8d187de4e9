// Package upstream is the region's side of its reserve: a replica's decisions on wants of shared limits that the
// aggregator does not decide. The rules are those of package reserve, the calls to the aggregator those of package client.
//
//	keeper.go    the record of the reserve: renouncing, stating, and permission
//	record.go    the record in the region's store: read, repair, write
//	undecided.go whether wants are decided in time
//	store.go     Acquire: the aggregator first, then the reserve
//	take.go      an ask that the reserve or the trickle answers
//	returns.go   give-backs go to the counter that granted the units
//	counters.go  the counters of the reserve and of the trickle
//	denials.go   keys without a unit a moment ago
package upstream
