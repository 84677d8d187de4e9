package shed

// Class is how important a request is: of two, the lower one is rejected first. The zero value is the lowest.
type Class uint8

// The classes, from what goes first to what is never rejected but by a full capacity.
const (
	Bulk Class = iota
	Low
	Normal
	Critical
	// Classes is how many there are.
	Classes = 4
)

// Profile is how fast the ratio follows the utilization. The zero value is the slow one.
type Profile uint8

const (
	// Slow rejects nothing in the first 28 s of a full overload and everything after 148 s.
	Slow Profile = iota
	// Fast rejects nothing in the first 2 s of a full overload and everything after 10 s.
	Fast
)

var (
	classWords   = [...]string{Bulk: "bulk", Low: "low", Normal: "normal", Critical: "critical", Classes: "unknown"}
	profileWords = [...]string{Slow: "slow", Fast: "fast", Fast + 1: "unknown"}
)

// String returns the word of the rule language.
func (c Class) String() string { return classWords[min(c, Classes)] }

// String returns the word of the rule language.
func (p Profile) String() string { return profileWords[min(p, Fast+1)] }

// Million is a ratio of one.
const Million = 1_000_000

const (
	// Below calm the level falls, above busy it rises; between them it stays. Both are a utilization per mille.
	calm = 700
	busy = 800
)

// span is how long a full overload lasts until the level is 0, and from there until it is at its top; in ms.
type span struct{ delay, rise int64 }

var spans = [...]span{Slow: {28_000, 120_000}, Fast: {2_000, 8_000}}

func (p Profile) span() span { return spans[min(p, Fast)] }

// Lowest is where a level begins, and how low it falls: as far below 0 as the delay is long.
func (p Profile) Lowest() int64 { return -p.span().delay * 1000 }

// Next moves a level, in µs of full overload, by a utilization (per mille) that lasted for some ms. A time below 0
// counts as 0, and one beyond the delay as the delay: a clock that jumps moves no level from its lowest above 0.
func (p Profile) Next(level, dtMillis, utilization int64) int64 {
	s, u := p.span(), min(max(utilization, 0), 1000)
	dt := min(max(dtMillis, 0), s.delay)
	switch {
	case u < calm:
		level -= dt * (calm - u) * 1000 / calm
	case u > busy:
		level += dt * (u - busy) * 1000 / (1000 - busy)
	}
	return min(max(level, -s.delay*1000), s.rise*1000)
}

// Ratio is which part of what can be rejected a level rejects: none up to 0, all at the top.
func (p Profile) Ratio(level int64) int64 {
	top := p.span().rise * 1000
	return min(max(level, 0), top) * Million / top
}

// minResponses is how many responses have to be known before their success or their load counts: of fewer, one client's
// would be all.
const minResponses = 5

// Utilization is the largest of what is in flight in parts of the capacity, the mean load that responses state,
// and, where fewer responses succeed than is asked for (percent; 0: none), as far above busy as they are
// below that: 1000 where none does. It is per mille, from 0 to 1000.
func Utilization(inFlight, capacity, success int64, s Sums) int64 {
	u := inFlight * 1000 / max(capacity, 1)
	if s.Loads >= minResponses {
		u = max(u, s.Load/s.Loads)
	}
	if asked := s.Count * success; s.Count >= minResponses && (s.Count-s.Failed)*100 < asked {
		u = max(u, 1000-(1000-busy)*(s.Count-s.Failed)*100/asked)
	}
	return min(max(u, 0), 1000)
}

// ClassCapacity is how many requests in flight leave none for a class that has so many percent of the capacity: at least 1.
func ClassCapacity(capacity, percent int64) int64 { return max((capacity*percent+99)/100, 1) }
