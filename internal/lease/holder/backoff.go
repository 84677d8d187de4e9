package holder

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// longestPause is the longest pause between two asks for a key that are not decided.
	longestPause = lease.Millis(limit.Second / limit.Millisecond)
	// mostFailures bounds the count: the shortest lease interval, doubled mostFailures-1 times, is longer than
	// longestPause.
	mostFailures = 8
	// pauseMemory is how long after a pause the number of failures is remembered.
	pauseMemory lease.Millis = 10_000
	// quietAfter is the number of failures after which no request waits for the next ask. That ask is sent after a request
	// that took on_failure, together with asks for other keys.
	quietAfter = 2
)

// Backoff is the pause in the asks for a key after an ask that was answered and not decided (Unavailable, UnknownRule): one
// lease interval, doubled with each further failure, up to a second. Meanwhile on_failure decides requests that would wait
// for a reply. Then one ask is sent. The zero value is the state after a decided ask.
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

// claim records an ask after failures. It is the only one until it is answered or has timed out.
func (b *Backoff) claim(t *lease.Terms, now lease.Millis) {
	if b.Failures > 0 && !b.Off(now) {
		b.Failures = min(b.Failures+1, mostFailures)
		b.Until = now + t.Timeout
	}
}

// replied takes the status of a reply, and reports whether the reply decided the want. For jitter see [State.Apply].
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
