package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// FailuresToOpen is how many calls in a row fail before a breaker opens.
const FailuresToOpen = 3

// probeEvery is the time from one probe of a tier that does not answer to the next.
const probeEvery lease.Millis = 100

// Breaker is a circuit breaker for calls to a service, or to one node of it. While it is open, on_failure decides requests
// and only probes are sent. The caller sends the probes and decides how many may be under way. The zero value is closed.
//
// Calls are numbered in the order in which they were sent. A failed call does not count if a later one was answered: one
// replica may hang while the others answer. A caller that ignores old calls by itself passes 0.
type Breaker struct {
	Open    bool
	Since   lease.Millis // while Open: since when it is
	ProbeAt lease.Millis // while Open: when the next probe may be sent

	failures int    // in a row; fewer than FailuresToOpen while closed
	answered uint64 // the latest call that was answered
}

// Answered takes the answer to a call or a probe, and closes the breaker.
func (b *Breaker) Answered(call uint64) {
	b.Open, b.failures, b.answered = false, 0, max(b.answered, call)
}

// Failed counts a call that failed, and reports whether that opened the breaker. jitter is
// that of [State.Apply], for the time of the first probe.
func (b *Breaker) Failed(now lease.Millis, call uint64, jitter lease.Percent) (opened bool) {
	if call < b.answered {
		return false
	}
	if b.failures++; b.Open || b.failures < FailuresToOpen {
		return false
	}
	b.Open, b.Since = true, now
	b.Probed(now, jitter)
	return true
}

// TimedOut is [Breaker.Failed] for a single node. One call without a reply in time opens the breaker, because other calls to
// that node would wait as well.
func (b *Breaker) TimedOut(now lease.Millis, call uint64, jitter lease.Percent) (opened bool) {
	if call >= b.answered {
		b.failures = max(b.failures, FailuresToOpen-1)
	}
	return b.Failed(now, call, jitter)
}

// ProbeDue reports whether a probe may be sent.
func (b *Breaker) ProbeDue(now lease.Millis) bool { return b.Open && now >= b.ProbeAt }

// Probed sets when the next probe may be sent, after one was sent or has failed.
func (b *Breaker) Probed(now lease.Millis, jitter lease.Percent) {
	b.ProbeAt = now + jitter.Of(probeEvery)
}
