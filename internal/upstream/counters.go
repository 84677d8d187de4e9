package upstream

import (
	"strconv"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// Names of counters have blanks, as no rule's name has.
const (
	reserveName = "reserve of "
	trickleName = "trickle of "
)

// reserveOf is the policy of a share of a limit, which has counters of its own.
func reserveOf(p *engine.Policy, share reserve.PerMille) *engine.Policy {
	s := p.Limit.Spec()
	return counted(reserveName+p.Rule, p, p.Resized(share.Of(s.Count), share.Of(s.Burst)).Limit, p.Terms.Consistency)
}

// trickleUnits is for how many units of a limit its trickle is counted at least: a part of them comes in for the region.
const trickleUnits = 100

// trickleWindow is how the time of a limit with windows is divided to count its trickle. They are short, since each
// outage leaves counters until they end.
func trickleWindow(s limit.Spec, w reserve.Window) reserve.Window {
	if short := max(limit.Minute, trickleUnits*w.Period/limit.Micros(max(s.Count, 1))); short < w.Period {
		w.Period, w.Calendar = short-short%limit.Millisecond, nil
	}
	return w
}

// trickle is the policy of so many units in each window of a limit that has some. Since wants stop being decided it is
// another counter each time.
func trickle(p *engine.Policy, cut limit.Micros, units int64) *engine.Policy {
	s := p.Limit.Spec()
	w := trickleWindow(s, reserve.WindowOf(s))
	own := limit.Spec{Algorithm: limit.FixedWindow, Count: units, Period: w.Period, LeaseTTL: s.LeaseTTL}
	if w.Calendar != nil {
		own.Calendar = s.Calendar
	}
	l, _ := limit.New(own) // the windows of a legal limit are legal
	return counted(since(p, int64(cut)), p, l, lease.Exact)
}

// trickleBucket is the policy of a share of a bucket, by a name of its leases: see [sinceID]. Each time it is another one: see
// [fill].
func trickleBucket(p *engine.Policy, id uint32, share reserve.PerMille) *engine.Policy {
	s := p.Limit.Spec()
	finer := s // the part of a small count would be rounded down to much less
	finer.Count, finer.Burst = int64(share)*s.Count, share.Of(s.Burst)
	times := min(1+leastCount*int64(reserve.Whole)/max(finer.Count, 1), int64(reserve.Whole))
	finer.Count, finer.Period = finer.Count*times/int64(reserve.Whole), s.Period*limit.Micros(times)
	l, err := limit.New(finer)
	if finer.Burst == 0 || err != nil { // the arithmetic has no room for that
		l = p.Resized(share.Of(s.Count), finer.Burst).Limit
	}
	return counted(since(p, int64(id)), p, l, lease.Exact)
}

// leastCount is the least count of a bucket's trickle, so that it is rounded by less than a hundredth.
const leastCount = 100

// since names the counters of a trickle by when it began.
func since(p *engine.Policy, began int64) string {
	return trickleName + p.Rule + " since " + strconv.FormatInt(began, 10)
}

// sinceID is the name of leases of a bucket's trickle, by when it began.
func sinceID(since limit.Micros) uint32 { return uint32(since/limit.Millisecond) ^ trickleTag }

// fill makes an ask of a bucket that is new, and so full, leave it with what has come in. Of one that is not it changes
// nothing.
func fill(a *engine.Ask, id uint32, units int64) {
	a.Want.Overdrawn, a.Want.Debt = max(a.Policy.Limit.Spec().Burst-units, 0), uint64(id)+1
}

// counted is the policy of counters in the region's own store.
func counted(name string, p *engine.Policy, l *limit.Limit, c lease.Consistency) *engine.Policy {
	t := &p.Terms
	own := engine.NewPolicy(name, p.Override, l.WithoutBlock(), lease.NewTerms(l, c, t.Interval, t.Timeout, t.Overdraft))
	own.OnFailure, own.Mode, own.Key = lease.FailureDeny, p.Mode, p.Key
	return own
}
