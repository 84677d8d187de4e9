// Package reserve decides what a region may admit of a shared limit while the aggregator does not decide
// for it: its reserve, a standing lease on every window that is to come. It is pure: no clock, no lock, no
// input or output. The region's side is [Record], the aggregator's is [Shares].
//
// # The rule
//
// A region has a share of each limit in every window to come. It renounces the share again and again: each
// reply of the aggregator renounces it in all windows that begin until [Ahead] after the aggregator's time in
// that reply. The aggregator withholds what a region has not renounced. So a region that is cut off may use
// its share in windows that begin after its last renouncement. Nobody else has that share, whatever was lost,
// late, repeated or restarted.
//
// # Why all regions together stay within the limit
//
// Say that a region uses its share s of a window that begins at b. It has permission for b: when permission
// was given, b was after the record's Until, or in its Span.
//
//   - Until only grows, and is written before it is sent. A replica that remembers a newer record than the
//     store has writes that again before it uses anything. So the aggregator's view of Until is never ahead
//     of the store's. For the aggregator b is after Until, too, and it withholds s.
//   - When the region renounces again after permission was given, all windows with permission join Used and
//     travel with the new Until. The aggregator takes both from one statement. So b is in Used as soon as it
//     is not after Until.
//   - A record that was lost, or went back, begins with what the aggregator knows of Until and Used: as if it
//     had used what it is not known to have renounced, and after every time that any aggregator can have told.
//   - Until has no clock of a region in it. It is the aggregator's time from a reply to a call of this record,
//     sent at most [FreshFor] ago.
//   - Shares have numbers. A region states the oldest number that it may still use, and the aggregator
//     withholds the largest share from that number on. It issues a larger share only where all others leave
//     room, by compare-and-set on one table. The share counts in windows that no aggregator with an older copy
//     can be granting by then; in earlier ones the region uses the least share that was in force.
//   - A share of a token bucket is withheld until the bucket can have filled after the region may have used
//     it. So no store has to know what a bucket would hold that nobody asked for.
//
// # One table for all aggregators
//
// All aggregators on one store keep one [Shares] there, swapped by compare-and-set, and decide by a copy. What
// a region states counts at once. A share is told once it is stored. An old copy withholds too much and never
// too little, so the order of messages does not matter. An aggregator whose copy is too old refuses calls.
//
// # The window that was renounced
//
// In the window that ran when it was cut off, and in others that it has renounced, a region admits its share of
// the limit's rate ([Trickle]): from when its wants stopped being decided until the last time that a replica knew
// that they still were not. So of this window all regions together admit at most L + Σ s × L × time cut off / W.
//
// # What is lost
//
// A store that loses what it acknowledged, the record or the table, adds at most the shares of the regions
// concerned, in the windows that had begun by then or begin within [Unknown]. Two regions with one name are noticed
// while both are heard, and that is all.
//
// # How it is tested
//
// The tests play worlds in which all of this goes wrong at random, take out each rule, and find the fault. Two rules
// that guard the same are taken out together: the ID and the age of a reply. Three rules are argued only, because no
// play of thousands needs them: that a time is told once it is stored, that a region without a known share is
// answered from a new table, and how far Unknown is.
package reserve
