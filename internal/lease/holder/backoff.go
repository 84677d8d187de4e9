package holder

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// longestPause is between two asks for a key that nobody decides on.
	longestPause = lease.Millis(limit.Second / limit.Millisecond)
	// mostFailures is how many are counted: the shortest lease interval, doubled so
	// often less one, is longer than longestPause.
	mostFailures = 8
	// pauseMemory is how long after a pause the number of failures is remembered.
	pauseMemory lease.Millis = 10_000
	// quietAfter is after how many failures no request waits for the next ask: that is
	// sent after a request that takes on_failure, together with those for other keys.
	quietAfter = 2
)

// Backoff is how long a holder does not ask for a key because the last ask was
// answered and not decided (Unavailable, UnknownRule): one lease interval, doubled with
// each further failure, up to a second. Requests that would wait for an answer take the
// rule's on_failure meanwhile; then one ask is sent. The zero value
// is that of a key whose last ask was decided.
type Backoff struct {
	Until    lease.Millis
	Failures uint8 // in a row, at most mostFailures
	Unknown  bool  // the last one was UnknownRule
}

// Off reports whether the key is not asked for now.
func (b *Backoff) Off(now lease.Millis) bool { return now < b.Until }

// quiet reports whether no request waits for an ask that is sent now.
func (b *Backoff) quiet(now lease.Millis) bool { return b.Failures >= quietAfter && b.Matters(now) }

// Matters reports whether the failures still make a difference.
func (b *Backoff) Matters(now lease.Millis) bool { return b.Failures > 0 && now < b.Until+pauseMemory }

// Status is that of the last failure.
func (b *Backoff) Status() lease.Status {
	if b.Unknown {
		return lease.UnknownRule
	}
	return lease.Unavailable
}

// claim notes an ask after failures: it is the only one until it is answered or has timed out.
func (b *Backoff) claim(t *lease.Terms, now lease.Millis) {
	if b.Failures > 0 && !b.Off(now) {
		b.Failures = min(b.Failures+1, mostFailures)
		b.Until = now + t.Timeout
	}
}

// replied takes the status of a reply, and reports whether it decided the want. jitter is
// that of [State.Apply].
func (b *Backoff) replied(t *lease.Terms, now lease.Millis, s lease.Status, jitter lease.Percent) (decided bool) {
	if s == lease.OK || s == lease.Denied {
		*b = Backoff{}
		return true
	}
	b.Failures, b.Unknown = max(b.Failures, 1), s == lease.UnknownRule
	pause := max(t.Interval, min(t.Interval<<(b.Failures-1), longestPause))
	b.Until = now + max(jitter.Of(pause), 1)
	return false
}
