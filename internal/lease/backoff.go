package lease

import "github.com/weirlimit/weir/internal/limit"

const (
	// longestPause is between two asks for a key that nobody decides on.
	longestPause = Millis(limit.Second / limit.Millisecond)
	// mostFailures is how many are counted: the shortest lease interval, doubled so
	// often less one, is longer than longestPause.
	mostFailures = 8
	// pauseMemory is how long after a pause it is known how many failures there were.
	pauseMemory Millis = 10_000
	// quietAfter is after how many failures nobody waits for the next ask: it goes out
	// behind a request that takes on_failure, together with those for other keys.
	quietAfter = 2
)

// Backoff is how long a holder does not ask for a key because the last ask was
// answered and not decided (Unavailable, UnknownRule): one lease interval, and twice as
// long with each further failure, up to a second. Whoever would have to wait for an
// answer takes the rule's on_failure meanwhile; then one ask goes out. The zero value
// is that of a key whose last ask was decided.
type Backoff struct {
	Until    Millis
	Failures uint8 // in a row, at most mostFailures
	Unknown  bool  // the last one was UnknownRule
}

// Off reports whether nobody asks for the key now.
func (b *Backoff) Off(now Millis) bool { return now < b.Until }

// quiet reports whether nobody waits for an ask that goes out now.
func (b *Backoff) quiet(now Millis) bool { return b.Failures >= quietAfter && b.Matters(now) }

// Matters reports whether a key that has not failed would do anything else.
func (b *Backoff) Matters(now Millis) bool { return b.Failures > 0 && now < b.Until+pauseMemory }

// Status is that of the last failure.
func (b *Backoff) Status() Status {
	if b.Unknown {
		return UnknownRule
	}
	return Unavailable
}

// claim notes an ask after failures: until it is answered, or too late, it is the only one.
func (b *Backoff) claim(t *Terms, now Millis) {
	if b.Failures > 0 && !b.Off(now) {
		b.Failures = min(b.Failures+1, mostFailures)
		b.Until = now + t.Timeout
	}
}

// heard takes the status of a reply, and reports whether it decided the want. jitter is
// that of [Account.Apply].
func (b *Backoff) heard(t *Terms, now Millis, s Status, jitter Millis) (decided bool) {
	if s == OK || s == Denied {
		*b = Backoff{}
		return true
	}
	b.Failures, b.Unknown = max(b.Failures, 1), s == UnknownRule
	pause := max(t.Interval, min(t.Interval<<(b.Failures-1), longestPause))
	b.Until = now + max(pause*jitter/100, 1)
	return false
}
