package faults

import (
	"slices"
	"time"
)

// harm lets a fault last: for so long, and on until enough calls that the machine
// did not hold up have met it.
func (r *trial) harm(least time.Duration) {
	r.t.Helper()
	from := r.at()
	time.Sleep(least)
	r.enough(200, span{from, forever})
	r.fault = span{from, r.at()}
}

// enough waits until so many calls began in a span that the machine did not hold
// up: a judgement on fewer would be one on the machine.
func (r *trial) enough(least int, during span) {
	r.t.Helper()
	for end := r.at() + patience; ; time.Sleep(250 * time.Millisecond) {
		n := r.punctual(during)
		if n >= least {
			return
		}
		if r.at() > end {
			r.t.Fatalf("timers of this process were late nearly all the time: of the calls of more than %v the machine, or a store that spins, held up all but %d; it takes %d to judge",
				patience, n, least)
		}
	}
}

// punctual is how many calls began in a span and were not held up by the machine.
func (r *trial) punctual(during span) (n int) {
	r.mu.Lock()
	calls := slices.Clone(r.calls)
	r.mu.Unlock()
	r.witness.mu.Lock()
	defer r.witness.mu.Unlock()
	for _, c := range calls {
		if during.from <= c.from && c.from < during.until && !r.witness.stalled(c) {
			n++
		}
	}
	return n
}

// inTime: of the calls that the machine did not hold up, 999 of 1,000 return within
// their budget and 20 ms.
func (r *trial) inTime() {
	r.t.Helper()
	var took []time.Duration
	for _, c := range r.calls {
		if !r.witness.stalled(c) {
			took = append(took, c.until-c.from)
		}
	}
	if len(took) < 100 {
		r.t.Fatalf("timers of this process were late nearly all the time: of %d calls the machine, or a store that spins, held up all but %d", len(r.calls), len(took))
	}
	p := func(share float64) time.Duration { return percentile(took, share).Round(10 * time.Microsecond) }
	r.t.Logf("%d calls, %d of them held up by the machine; the others p50 %v, p99 %v, p99.9 %v",
		len(r.calls), len(r.calls)-len(took), p(0.5), p(0.99), p(0.999))
	if got := p(0.999); got > budget+20*time.Millisecond {
		r.t.Errorf("p99.9 of a call took %v, at most %v", got, budget+20*time.Millisecond)
	}
}

// percentile is the smallest value that so much of values does not exceed.
func percentile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
