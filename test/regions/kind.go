package regions

import "fmt"

// Kind is the word with which an expectation begins. It says in which plays the bound has to hold.
type Kind string

// The kinds.
const (
	// Always is for safety and for what Weir promises on any machine: what is admitted at most, what is
	// admitted during a fault at least, and that no client gets a 5xx. The bound has to hold in every play.
	Always Kind = "always"
	// Expect is for latency and fairness: how soon, how evenly, how near to the limit, how many calls. A
	// machine that is busy changes them. The first play has to hold all of these bounds, or else two other plays.
	Expect Kind = "expect"
	// Aim never fails. It is printed.
	Aim Kind = "aim"
)

// Nature is which kinds a figure may be of. The zero value is a count of requests by their answers: a bound on it may
// be of any kind.
type nature int

// The other natures.
const (
	// ofLimit are admissions as a part of a limit: what they are at most is safety.
	ofLimit nature = iota + 1
	// effort is time, waiting and calls: latency, and never safety.
	effort
)

// suits reports why an expectation of a figure of this nature cannot be of a kind.
func (n nature) suits(k Kind, b Bound) error {
	switch {
	case n == effort && k == Always:
		return fmt.Errorf("the figure depends on the machine: write expect or aim")
	case n == ofLimit && k != Always && b.limits():
		return fmt.Errorf("what is admitted of a limit at most is safety: write always")
	}
	return nil
}
