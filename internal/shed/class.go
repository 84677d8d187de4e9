package shed

// Class is how important a request is: of two, the lower one is refused first. The zero value is the lowest.
type Class uint8

// The classes, from what goes first to what is never refused but by a full capacity.
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
	// Slow refuses nothing in the first 28 s of a full overload and everything after 148 s.
	Slow Profile = iota
	// Fast refuses nothing in the first 2 s of a full overload and everything after 10 s.
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
