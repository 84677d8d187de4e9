// Package shed decides which requests to reject while an upstream is overloaded.
//
//	requests in flight and responses → [Utilization] → [Profile.Next], a level
//	a level → [Profile.Ratio] → [Seen.Cut] → [Cut.Rejects]
//
// [ClassCapacity] rejects at once: each class has its share of the capacity. The ratio never rejects [Critical], so neither clients
// nor an upstream can cause that: only a full capacity does.
//
// The package knows no clock and no other worker: times are arguments, in ms of a clock that may stand still or jump. A
// ratio or a chance is in millionths, a utilization in per mille.
package shed
