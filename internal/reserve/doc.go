// Package reserve decides what a region may admit of a shared limit while the aggregator does not decide
// for it: its reserve, a standing lease on every window that is to come. It is pure: no clock, no lock, no
// input or output. The region's side is [Record], the aggregator's is [Shares].
//
// # The rule
//
// A region has a share of each limit in every window to come. It renounces the share before it could need
// it, again and again: with each reply of the aggregator for all windows that begin until [Ahead] after the
// aggregator's time in that reply. What a region has not renounced, the aggregator withholds from all. So a
// region that is cut off may use its share in windows that begin after its last renouncement, and nobody
// else has that share, whatever was lost, late, repeated or restarted.
//
// # Why all regions together stay within the limit
//
// Say that of a window that begins at b the region uses its share s. It has permission for b: b is after
// the record's Until when permission was given, or in its Span.
//
//   - Until only grows, is written before it is sent, and a replica that remembers a newer record than
//     the store has writes that again before it uses anything. So the aggregator's view of Until is never
//     ahead of the store's, and for the aggregator b is after Until, too: it withholds.
//   - When the region renounces again after permission was given, all windows for which it was given join
//     Used, and travel with the new Until. The aggregator takes both from one statement, so b is in Used as
//     soon as it is not after Until.
//   - A record that was lost, or went back, begins with what the aggregator knows of Until and Used, as if it
//     had used what it is not known to have renounced, and after every time that any aggregator can have told.
//   - No clock of a region is in Until: it is the aggregator's time, as a reply to a call of this record
//     told it that was sent at most [FreshFor] ago.
//   - Shares have numbers. The aggregator withholds the largest one that the region may still use: those
//     from the number that it states on. A larger share is issued only where all others leave room, by
//     compare-and-set on one table, and counts in windows that no aggregator with an older copy can be
//     granting by then; in earlier ones the region uses the least share that was in force.
//   - Of a token bucket a share is withheld for as long as the bucket takes to fill after the region may have used
//     it: so no store has to know what a bucket would hold that nobody asked for.
//
// The property tests take out each of these rules and find the fault.
package reserve
