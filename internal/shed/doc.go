// Package shed decides which requests an upstream that has too much to do is spared.
//
//	what runs and what responses say → [Utilization] → [Profile.Next], a level
//	a level → [Profile.Ratio] → [Seen.Cut] → [Cut.Refuses]
//
// [Room] does the rest at once: each class has its part of the capacity. The ratio never refuses [Critical], so
// neither what clients send nor what an upstream states can: only a capacity that is full does.
//
// The package knows no clock and no other worker: times are arguments, in ms of a clock that may stand still or jump.
// A ratio or a chance is in millionths, a utilization in per mille.
package shed
