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
// # The window that was renounced
//
// In the window that ran when it was cut off, and others that it has renounced, a region goes on at its share of the
// limit's rate ([Trickle]), from when its wants stopped being decided until a replica knows last that they still are
// not. So all regions together admit at most L + Σ s × L × time cut off / W of it.
//
// # What is lost
//
// A store that loses what it has acknowledged, the record or the table, adds at most the shares of the regions that
// it concerns, in the windows that had begun by then or begin within [Unknown]. Two regions with one name are noticed,
// while both are heard, and that is all.
//
// # How it is tested
//
// The tests play worlds in which all of this goes wrong at random, take out each rule, and find the fault. Where two
// rules guard the same they are taken out together: the ID and the age of a reply. Three are argued only, since no
// play of thousands needs them: that a time is told once it is stored, that who knows no share is answered from a
// new table, and how far Unknown is.
package reserve
