// Package live is how people see what a running system does. A [Desk] in each replica of a region, and of the
// aggregator, tells holders that somebody watches, takes their reports, and shows them to whoever looks.
//
//	board.go   what replicas share: notes that end, in memory or in Redis
//	desk.go    who watches, and what is done once a second while somebody does
//	take.go    reports of holders, and what one address may take of the memory for them; check.go: their bounds
//	view.go    all reports as one, for readers; keys.go: the keys that come most; up.go: for the tier above
//
// While nobody watches a replica reads one key of the store once a second, and nothing else is done. A report is
// believed of its own holder only: what a holder makes up shows in its own row, and in sums that can be shown by PoP.
package live
