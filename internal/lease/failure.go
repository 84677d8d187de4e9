package lease

import (
	"github.com/weirlimit/weir/internal/limit"
)

// Failure is how a holder decides while the granter does not answer.
type Failure struct {
	By OnFailure
	// Share is how many units the holder admits with FailureLocal until the end of the window, see [OnFailure.Among].
	Share int64
	Ends  Millis // of the window
	// Guessed is true if Ends is the nominal length of a window from now, because the calendar is unknown. The end stated in
	// the last reply is then better.
	Guessed bool
}

// Failed is the decision on a request that the granter did not answer. Reset and RetryAfter are durations.
type Failed struct {
	Admitted bool
	By       OnFailure // that decided, unless Denied
	Denied   bool      // the granter had denied the need, and its counter is not new yet
	Reset    Millis    // until the counter, or the share, is as good as new
	// RetryAfter is after how long the client of a rejected request should retry; 0: unknown, because it depends on when
	// the granter answers again.
	RetryAfter Millis
	// Unowed is how many admitted units are not added to the debt, which is one limit already.
	Unowed int64
}

// Among returns the decision of f at one of the holders that share a limit. Each enforces an equal part of the limit, rounded
// up. live is the number of holders; if it is 0 or less, expected counts, at least one. now is the holder's clock, and wall the
// time of day: windows start at multiples of the period, or as the calendar says. Ends is rounded up to a millisecond, so that a
// share is not renewed before its window ends.
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

// FailSlots decides a request of cost slots that the granter did not answer, with so many slots free and in use. With
// FailureLocal the holder may use its share, and all free slots.
func (f Failure) FailSlots(free, inUse, cost int64) Failed {
	d := f.By.FailUncounted()
	if f.By == FailureLocal {
		d.Admitted = max(free, f.Share-inUse) >= cost
	}
	return d
}

// FailUncounted decides by on_failure if admitted units cannot be counted: allow admits, deny and local reject.
func (f OnFailure) FailUncounted() Failed {
	return Failed{Admitted: f == FailureAllow, By: f}
}
