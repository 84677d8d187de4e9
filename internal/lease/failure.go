package lease

import (
	"github.com/weirlimit/weir/internal/limit"
)

// Failure is how a holder decides while the tier above does not answer.
type Failure struct {
	By OnFailure
	// Share is for FailureLocal: how many units the holder admits by itself until the end of
	// the window, see [OnFailure.Among].
	Share int64
	Ends  Millis // of the window
	// Guessed: Ends is the nominal length of a window from now, because nobody here knows the calendar. The end that
	// the last reply stated is better.
	Guessed bool
}

// Failed is the decision on a request that the tier above did not answer. Reset and
// RetryAfter are durations.
type Failed struct {
	Admitted bool
	By       OnFailure // that decided, unless Denied
	Denied   bool      // the tier above had denied it, and its counter is not new yet
	Reset    Millis    // until the counter is as good as new, or until the share is
	// RetryAfter is, for a request that is refused, when it should come back; 0: not
	// known, because it depends on when the tier above answers again.
	RetryAfter Millis
	// Unowed is what of the cost is not owed for though it was admitted: the debt is one
	// limit already, see [Taken].
	Unowed int64
}

// Among returns what f does at one of the holders that share a limit. Each of them enforces an equal
// part of it, rounded up. live is their number; if it is 0 or less it is not known, and expected
// counts, at least one. now is the holder's clock, and wall the time of day: windows start at
// multiples of the period, or where its calendar has them. Their end is rounded up to a millisecond: were it rounded down, a share
// would be renewed just before its window ends, and could be spent twice in it.
func (f OnFailure) Among(live int, expected int64, s limit.Spec, now Millis, wall limit.Micros) Failure {
	d := Failure{By: f}
	if f != FailureLocal {
		return d
	}
	n := int64(live)
	if n <= 0 {
		n = max(expected, 1)
	}
	d.Share = (s.Count + n - 1) / n
	switch c := s.Calendar; {
	case c != nil && c.Windows == nil:
		d.Ends, d.Guessed = now+CeilMillis(s.Period), true
	case c != nil:
		d.Ends = now + CeilMillis(c.Windows.Around(wall)[2]-wall)
	case s.Period > 0:
		d.Ends = now + CeilMillis(s.Period-wall%s.Period)
	}
	return d
}

// FailSlots decides a request of cost slots that the tier above did not answer, while the
// holder uses some and others are free: under FailureLocal it may use its share, whatever
// it holds.
func (f Failure) FailSlots(free, inUse, cost int64) Failed {
	d := f.By.FailUncounted()
	if f.By == FailureLocal {
		d.Admitted = max(free, f.Share-inUse) >= cost
	}
	return d
}

// FailUncounted decides by on_failure where nothing that is admitted can be counted: allow
// admits, deny and local refuse.
func (f OnFailure) FailUncounted() Failed {
	return Failed{Admitted: f == FailureAllow, By: f}
}
