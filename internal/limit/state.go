package limit

// State is what is kept of one counter, whatever its algorithm. The zero value
// is a counter that was never used, and so is every state that [Limit.Fresh]
// reports as fresh: forgetting one changes no later decision.
//
// A State is a value, but Log may share memory with the state it came from: the
// state that went into a function must not be used after it, unless the function
// is Peek or Fresh.
//
// A state outlives a change of its limit's count, burst and ttl. A change of
// [Limit.Shape] needs a new one.
type State struct {
	// At is 0 for a counter never used. Token bucket: the time at which Level was
	// true. Windows: the start of the current window. Sliding log: the latest
	// time seen.
	At Micros
	// Level is, for a token bucket, its credit, -capacity <= Level <= capacity
	// (below zero after overdrawn units were charged); for windows the units
	// charged in the current window, 0 <= Level; for a sliding log the units of
	// the live entries in Log, 0 <= Level.
	Level int64
	// Aux is a second number, never negative. What it is depends on the algorithm, and
	// stands beside it: what a token costs in Level (tokenCost), units of the next window
	// (next), units of the window before (before), entries that are over (over).
	Aux int64
	// Log holds the charges of a sliding log by time, oldest first; nil otherwise.
	Log []Charge
}

// Charge is one entry of a sliding log: units spent at or before At.
//
// Entries hold running sums, not units, so that what the entries up to any one
// of them hold is a difference, and "when has enough of this log expired" a
// binary search.
type Charge struct {
	At Micros
	// Sum is the units of this entry and all before it in its log, those that are
	// over included.
	Sum int64
}
