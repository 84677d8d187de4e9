package regions

import (
	"math"
	"time"
)

// window is one window of a rule. Its times count from the beginning of the play, so it may begin before 0.
type window struct{ begin, end time.Duration }

// flip is how much longer than a trip a region may take on a busy machine until it spends what is of the
// next window.
const flip = 250 * time.Millisecond

func period(r *Rule) time.Duration { return time.Duration(r.Spec.Period) * time.Microsecond }

// label is when the window begins that a time is in. Weir counts windows from 1970.
func label(at time.Time, length time.Duration) time.Time {
	return time.UnixMicro(at.UnixMicro() / length.Microseconds() * length.Microseconds())
}

// windows are those of a rule that the play touches, in turn.
func (p *Played) windows(r *Rule) (all []window) {
	length := period(r)
	for begin := label(p.begin, length).Sub(p.begin); begin < p.Script.Last(); begin += length {
		all = append(all, window{begin, begin + length})
	}
	return all
}

// spent is what was surely charged to a window or to the one before it: requests that were sent and answered in
// it. What was answered later waited, and may be charged to the next.
func (p *Played) spent(f Figure, w window) (n int64) {
	end := p.begin.Add(w.end).Unix()
	for i, l := range p.Script.Loads {
		if !f.covers(l) {
			continue
		}
		for at := max(w.begin, 0); at < min(w.end, p.Script.Last()); at += time.Second {
			second := p.results[i].Seconds[p.begin.Add(at).Unix()]
			n += second.OK
			for answered, late := range second.Later {
				if answered >= end {
					n -= late
				}
			}
		}
	}
	return n
}

// early is what may have been admitted at most on leases of the window before: by a distant region, in the
// first trip of a window.
func (p *Played) early(f Figure, w window) (n float64) {
	for _, l := range p.Script.Loads {
		if trip := p.Script.Trip; f.covers(l) && f.rule.Global && trip > 0 && l.From < w.begin+time.Second && l.To > w.begin {
			n += l.PerSecond * (trip + flip).Seconds()
		}
	}
	return n
}

// charged is what was surely charged to a window by the regions of a figure, where that is more than may be:
// what was spent in it, without what PoPs admitted by themselves, which is counted apart, and without what the
// window before had left and a distant region may have spent early in this one. Each play has keys of its own, so its
// first window has none before it.
func (p *Played) charged(f Figure, w window, most float64) float64 {
	n := float64(p.spent(f, w))
	if n <= most {
		return n
	}
	n -= p.alone(f, max(w.begin, 0), w.end)
	if w.begin > 0 {
		before, all := window{w.begin - period(f.rule), w.begin}, f
		all.Region = ""
		left := max(0, float64(f.rule.Spec.Count-p.spent(all, before)))
		n -= min(left, p.early(f, w))
	}
	return max(most, n)
}

// judged are the windows of a figure. From 0s it has the one that ran when the play began.
func (p *Played) judged(f Figure) (all []window) {
	for _, w := range p.windows(f.rule) {
		if (f.From == 0 || w.begin >= f.From) && w.begin < p.until(f) {
			all = append(all, w)
		}
	}
	return all
}

// fullestWindow measures nothing if the figure has no window.
func (p *Played) fullestWindow(f Figure) float64 {
	most, count := math.NaN(), float64(f.rule.Spec.Count)
	for _, w := range p.judged(f) {
		if part := 100 * p.charged(f, w, f.most/100*count) / count; !(part <= most) {
			most = part
		}
	}
	return most
}

// emptiestWindow measures nothing if the figure has no whole window.
func (p *Played) emptiestWindow(f Figure) float64 {
	least := math.NaN()
	for _, w := range p.judged(f) {
		if w.begin < 0 || w.end > p.until(f) {
			continue
		}
		if part := 100 * float64(p.admitted(f, w.begin, w.end)) / float64(f.rule.Spec.Count); !(part >= least) {
			least = part
		}
	}
	return least
}
