package decision

import "github.com/weirlimit/weir/internal/engine"

// isOver reports whether too little is left for descriptor i after those before it on its
// counter, as if each of them had been charged. A check is over if nothing is left, unless
// the request itself was granted the last units.
func (r *Request) isOver(i int) bool {
	d := &r.Descriptors[i]
	v := &r.judgments[d.ask]
	if v.Degraded != engine.Sound && !v.Rejected {
		return false
	}
	over := r.used(i)+r.through(i) > d.Policy.Terms.Capacity
	switch {
	case d.check() && v.Degraded == engine.Sound && r.before(i).count > 0:
		return over
	case d.alone:
		return over || v.Rejected
	}
	return v.Rejected || over && !v.Admitted // another one of the group may be rejected
}

// Left is how many units remain when descriptor i is counted and those after it are not
// yet; of a request that charges nothing, all that was left. The descriptor is counted.
func (r *Request) Left(i int) int64 {
	d := &r.Descriptors[i]
	left := d.Policy.Terms.Capacity - r.used(i)
	switch {
	case !r.Free && (r.judgments[d.ask].Admitted || d.check()):
		left -= r.through(i)
	case r.Free && d.alone:
		left += r.before(i).granted // comes back as well
	}
	return left
}

// used is what was used of the counter of descriptor i before its ask. It is based on the
// calls of this replica: a counter for which it had none since it was new counts as new.
func (r *Request) used(i int) int64 {
	d := &r.Descriptors[i]
	a, v := &r.asks[d.ask], &r.judgments[d.ask]
	if (!v.Admitted || d.check()) && v.Degraded == engine.Sound && v.Grant.Reset <= 0 {
		return 0
	}
	granted := v.Grant.Granted
	if v.Admitted && v.Degraded != engine.Sound { // nothing was granted, but it is counted
		granted = a.Want.Need
	}
	used := d.Policy.Terms.Capacity - v.Grant.Remaining - granted
	if d.check() { // only the charge before it knows what is used beyond its limit
		used = max(used, r.before(i).count)
	}
	return used
}

// through is what descriptor i charges its counter, and those before it that were rejected and are not in used.
func (r *Request) through(i int) int64 {
	d := &r.Descriptors[i]
	if r.uncharged && d.alone {
		return d.Hits + r.before(i).rejected
	}
	return d.Hits
}

// earlier is what became of the descriptors before another one on its counter.
type earlier struct {
	rejected, granted int64 // units; rejected: that were not charged
	count             int64 // of the counter, if the last charge was granted; else 0
}

// before sums up what became of the descriptors before i on its counter.
func (r *Request) before(i int) (e earlier) {
	d := &r.Descriptors[i]
	for j := range r.Descriptors[:i] {
		o := &r.Descriptors[j]
		if o.ask < 0 || o.check() || !sameCounter(d, o) {
			continue
		}
		v := &r.judgments[o.ask]
		e.count = 0
		switch {
		case v.Admitted:
			e.granted += v.Grant.Granted
			if v.Degraded == engine.Sound {
				e.count = o.Policy.Terms.Capacity - v.Grant.Remaining
			}
		case r.uncharged:
			e.rejected += o.Hits
		}
	}
	return e
}
