// Package live shows what a running system does. A [Collector] in each replica and aggregator tells holders that somebody watches,
// takes their reports, and shows them to readers.
//
//	notes.go     notes with an end that replicas share, in memory or in Redis
//	collector.go the watchers, and the work once a second while there are some
//	take.go      reports of holders, and the memory for those of one address; check.go: their bounds
//	view.go      all reports as one; keys.go: the busiest keys; up.go: for the aggregator
//	record.go    the history of a region: one replica folds all reports into it, and every replica reads it
//
// PoPs also report while nobody watches, every 10 s, for the history. Meanwhile a replica writes and reads one key of the store
// once a second, and the replica that records the history also reads all reports every 5 s. A report counts for its own
// holder only: false values appear in its own row, and in sums that can be shown by PoP.
package live
