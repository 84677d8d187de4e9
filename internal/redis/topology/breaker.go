package topology

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// outcome is how a pipeline, or a probe, ended.
type outcome uint8

const (
	answered outcome = iota // every reply arrived, errors included
	failed                  // the connection was rejected or broke
	timedOut                // no reply in time: the next command would hang as well
)

// outcomeOf returns what the error of a pipeline, or of a probe, means for the breaker.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return answered
	case TimedOut(err):
		return timedOut
	}
	return failed
}

// breaker is the breaker of a node. Nothing but a probe closes it. The zero value is closed.
//
// A generation ends when the breaker opens, and when the connections are renewed: pipelines that
// began in one do not count in the next. They may end long after the breaker closed, in a timeout,
// or in an error because their connection was given up.
type breaker struct {
	holder.Breaker
	generation uint64
}

// report takes the outcome of a pipeline that began in that generation and ended at now. It
// reports whether the outcome counts, and whether it opened the breaker. jitter is that of
// [lease.Breaker].
func (b *breaker) report(generation uint64, o outcome, now lease.Millis, jitter lease.Percent) (counts, opened bool) {
	if b.Open || generation != b.generation {
		return false, false
	}
	switch o {
	case answered:
		b.Answered(0)
	case failed:
		opened = b.Failed(now, 0, jitter)
	case timedOut:
		opened = b.TimedOut(now, 0, jitter)
	}
	if opened {
		b.generation++
	}
	return true, opened
}
