package replay

import (
	"container/heap"
	"math"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/exact"
)

// peak is the most that a key spends in one period of a limit: with that count the limit rejects the key nothing.
//
//	fixed_window    in a window, also of a calendar
//	sliding_window  in a window, with the part of the one before that the algorithm adds
//	sliding_log     in any time as long as the period
//	token_bucket    in any time in which an empty bucket fills: it is the burst, and the count is in proportion to it
//	concurrency     at the same time
//
// A time is counted in hundredths, and up to one of them too long: such a peak may be too large, never too small. That of a bucket
// suffices, and a burst down to a half of it may do.
type peak struct {
	requests    int64
	most        int64
	start       limit.Micros         // of the window
	sum, before int64                // of the window or time, and of the window before
	steps       []step               // of the time
	streams     exact.Endings[int64] // and their slots
}

// step is what was spent in a hundredth of the time.
type step struct {
	at    limit.Micros
	units int64
}

// add counts a request, which is not earlier than any before.
func (p *peak) add(l *limit.Limit, at, lasts limit.Micros, cost int64) {
	p.requests++
	s := l.Spec()
	switch s.Algorithm {
	case limit.FixedWindow, limit.SlidingWindow:
		p.window(l, &s, at)
	case limit.Concurrency:
		for len(p.streams) > 0 && p.streams[0].At <= at {
			p.sum -= heap.Pop(&p.streams).(exact.Ending[int64]).What
		}
		heap.Push(&p.streams, exact.Ending[int64]{At: at + lasts, What: cost})
	default:
		time := float64(s.Period)
		if s.Algorithm == limit.TokenBucket && s.Count > 0 {
			time = min(time*float64(s.Burst)/float64(s.Count), float64(10*limit.MaxPeriod))
		}
		at /= max(limit.Micros(time/100), 1)
		if p.end(at - 101); len(p.steps) == 0 || p.steps[len(p.steps)-1].at != at {
			p.steps = append(p.steps, step{at: at})
		}
		p.steps[len(p.steps)-1].units += cost
	}
	p.sum += cost
	sum := p.sum
	if s.Algorithm == limit.SlidingWindow {
		sum += int64(math.Ceil(float64(p.before) * float64(p.start+s.Period-at) / float64(s.Period)))
	}
	p.most = max(p.most, sum)
}

// window begins another window, if it is time.
func (p *peak) window(l *limit.Limit, s *limit.Spec, at limit.Micros) {
	start, _ := l.WindowAt(at)
	if s.Align == limit.AlignFirstRequest {
		if start = p.start; at-start >= s.Period {
			start = at
		}
	}
	if start == p.start {
		return
	}
	if p.before = p.sum; start != p.start+s.Period {
		p.before = 0
	}
	p.start, p.sum = start, 0
}

// end ends the steps until then.
func (p *peak) end(until limit.Micros) {
	n := 0
	for ; n < len(p.steps) && p.steps[n].at <= until; n++ {
		p.sum -= p.steps[n].units
	}
	p.steps = slices.Delete(p.steps, 0, n)
}
