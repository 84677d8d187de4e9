// Package reserve decides what a region may admit of a shared limit while the aggregator does not decide for it: its
// reserve, a standing lease on every future window. The package is pure: no clock, no lock, no input or output. The
// region's side is [Record], the aggregator's side is [Shares].
//
// # The rule
//
// A region has a share of each limit in every future window. It renounces the share again and again: each reply of the
// aggregator renounces it in all windows that begin until [Ahead] after the aggregator's time in that reply. The
// aggregator withholds shares that a region has not renounced. So a region that is cut off may use its share in windows
// that begin after its last renouncement. No other region has that share, whatever was lost, late, repeated or restarted.
//
// # Why all regions together stay within the limit
//
// A region uses its share s of a window that begins at b. It has permission for b: when permission was given, b was after
// the record's Until, or in its Span.
//
//   - Until only grows, and is written before it is sent. A replica that remembers a newer record than the
//     store writes it again before it uses a share. So the aggregator's copy of Until is never ahead of the
//     store's. For the aggregator, b is after Until too, and it withholds s.
//   - When the region renounces again after permission was given, all windows with permission join Used and
//     travel with the new Until. The aggregator takes both from one statement. So b is in Used as soon as it
//     is not after Until.
//   - A record that was lost, or went back, begins with the aggregator's Until and Used: as if the region had
//     used all windows that it has not provably renounced, and after every time that an aggregator can have told.
//   - Until contains no clock of a region. It is the aggregator's time from a reply to a call of this record,
//     sent at most [FreshFor] ago.
//   - Shares have numbers. A region states the oldest number that it may still use, and the aggregator
//     withholds the largest share from that number on. It issues a larger share only where all others leave
//     room, by compare-and-set on one table. The share counts in windows that no aggregator with an older copy
//     can be granting by then; in earlier windows the region uses the smallest share that was in force.
//   - A share of a token bucket is withheld until the bucket can have filled after the region may have used
//     it. So no store has to know the level of a bucket that nobody asked for.
//
// # One table for all aggregators
//
// All aggregators on one store keep one [Shares] there, swap it by compare-and-set, and decide by a copy. A region's
// statement counts at once. A share is told to the region once it is stored. An old copy withholds too much and never too
// little, so the order of messages does not matter. An aggregator with an old copy rejects calls.
//
// # The renounced window
//
// In the window in which it is cut off, and in other windows that it has renounced, a region admits its share of the
// limit's rate ([Trickle]): from the time when its wants were no longer decided to the last time at which a replica knew
// that they still were not. So in this window all regions together admit at most L + Σ s × L × time cut off / W.
//
// # What is lost
//
// A store that loses acknowledged data, the record or the table, adds at most the shares of the regions concerned, in the
// windows that had begun by then or begin within [Unknown]. Two regions with one name are noticed only while the
// aggregator hears both.
//
// # How it is tested
//
// The tests play random faults of records, tables, clocks and messages, and fail if a limit is passed. Three rules are argued
// only, because no play needs them: a time is told once it is stored, a region without a known share is answered from a new
// table, and the length of Unknown.
package reserve
