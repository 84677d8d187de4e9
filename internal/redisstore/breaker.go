package redisstore

import "time"

// probeEvery is the time from the failure of a node, or of a probe, to the next
// probe, ten percent more or less.
const probeEvery = 100 * time.Millisecond

// manyErrors in a row open a breaker.
const manyErrors = 3

// outcome is how a pipeline, or a probe, ended.
type outcome uint8

const (
	answered outcome = iota // every reply arrived, errors included
	failed                  // the connection was refused or broke
	timedOut                // no reply in time: the next command would hang as well
)

// breaker decides whether a node is worth asking. It is a state machine without a
// clock of its own: a time is what its owner reads from a monotonic one. The zero
// value is closed.
//
// Invariants: errors < manyErrors while closed; nothing but a probe closes it; what
// began in one generation tells nothing in another.
type breaker struct {
	// generation counts how often it opened. Who asks takes it before, and reports
	// with it: pipelines that began before the breaker opened may end long after it
	// closed, in a timeout, or in an error because their connection was given up.
	generation uint64

	open    bool
	probing bool          // a probe is under way; only while open
	errors  int           // in a row, while closed
	next    time.Duration // when to probe; only while open
}

// report tells how a pipeline ended at now that began in that generation. It opens
// the breaker upon one timeout, or upon three errors in a row, and says whether it
// did.
func (b *breaker) report(generation uint64, o outcome, now, wait time.Duration) (opened bool) {
	if b.open || generation != b.generation {
		return false
	}
	switch o {
	case answered:
		b.errors = 0
		return false
	case failed:
		b.errors++
	}
	if o == timedOut || b.errors >= manyErrors {
		*b = breaker{generation: b.generation + 1, open: true, next: now + wait}
	}
	return b.open
}

// probe says whether to send a probe at now. There is at most one at a time, and
// its result must be told.
func (b *breaker) probe(now time.Duration) bool {
	if !b.open || b.probing || now < b.next {
		return false
	}
	b.probing = true
	return true
}

// probed tells how the probe ended: an answer closes the breaker, all else has it
// wait for the next one.
func (b *breaker) probed(o outcome, now, wait time.Duration) {
	if o == answered {
		*b = breaker{generation: b.generation}
		return
	}
	b.probing, b.next = false, now+wait
}
