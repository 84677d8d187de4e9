package upstream

import (
	"strconv"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// maxCounters bounds the policies of reserves that are kept.
const maxCounters = 4096

// Names of counters have blanks, as no rule's name has.
const (
	reserveOf = "reserve of "
	trickleOf = "trickle of "
)

// counters has the policies by which a region counts its reserve. The zero value has none. It is safe for concurrent
// use.
type counters struct {
	mu       sync.Mutex
	reserves map[part]*engine.Policy
}

// part is a share of the limit of a policy.
type part struct {
	of    *engine.Policy
	share reserve.PerMille
}

// reserve is the policy of a share of a limit, which has counters of its own.
func (c *counters) reserve(p *engine.Policy, share reserve.PerMille) *engine.Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.reserves[part{p, share}]
	if own == nil {
		if len(c.reserves) >= maxCounters || c.reserves == nil {
			c.reserves = map[part]*engine.Policy{}
		}
		s := p.Limit.Spec()
		own = counted(reserveOf+p.Rule, p, p.Resized(share.Of(s.Count), share.Of(s.Burst)).Limit, p.Terms.Consistency)
		c.reserves[part{p, share}] = own
	}
	return own
}

// mostParts is into how many windows at most that of a bucket is divided to count its trickle: the least burst that a
// leased rule may have fills in a part of this length.
const mostParts = 20

// trickleUnits is for how many units of a limit its trickle is counted at least: a part of them comes in for the region.
const trickleUnits = 100

// trickleWindow is how a limit's time is divided to count its trickle. A bucket's is such that what is saved up in a
// window is no more than its burst; others are short, since each outage leaves counters until they end.
func trickleWindow(s limit.Spec, w reserve.Window) reserve.Window {
	if short := max(limit.Minute, trickleUnits*w.Period/limit.Micros(max(s.Count, 1))); !w.Refills && short < w.Period {
		w.Period = short - short%limit.Millisecond
	}
	if w.Refills && w.Period == reserve.Ahead {
		fill := float64(s.Burst) * float64(s.Period) / float64(s.Count)
		parts := limit.Micros(min(float64(w.Period)/max(fill, 1), mostParts-1))
		for parts++; w.Period%(parts*limit.Millisecond) != 0; parts++ {
		}
		w.Period /= parts
	}
	return w
}

// trickle is the policy of so many units in each window. Since wants stop being decided it is another counter each time.
func trickle(p *engine.Policy, cut limit.Micros, units int64) *engine.Policy {
	s := p.Limit.Spec()
	w := trickleWindow(s, reserve.WindowOf(s))
	l, _ := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: units, Period: w.Period, LeaseTTL: p.Limit.Spec().LeaseTTL}) // the windows of a legal limit are legal
	return counted(trickleOf+p.Rule+" since "+strconv.FormatInt(int64(cut), 10), p, l, lease.Exact)
}

// counted is the policy of counters in the region's own store.
func counted(name string, p *engine.Policy, l *limit.Limit, c lease.Consistency) *engine.Policy {
	t := &p.Terms
	own := engine.NewPolicy(name, p.Override, l, lease.NewTerms(l, c, t.Interval, t.Timeout, t.Overdraft), p.Since)
	own.OnFailure, own.Mode, own.Key = lease.FailureDeny, p.Mode, p.Key
	return own
}
