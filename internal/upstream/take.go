package upstream

import (
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// maxRetry is when a client should come back at the latest whose want was not decided: the aggregator may answer
// at any time.
const maxRetry = 10 * limit.Second

// taking is the asks of a call that the region answers by itself.
type taking struct {
	at   []int // in the call
	from []source
}

// source is where the region takes what an ask wants.
type source struct {
	window   reserve.Window
	begin    limit.Micros // of the window that runs
	permit   reserve.Permission
	share    reserve.PerMille
	from     way
	decided  bool // the aggregator denied the ask
	lendable bool // the reserve may be used in the window
	// since is when the trickle began, and names its counter: when wants stopped being decided or, of a bucket, when the
	// first window began in which the reserve may be used.
	since limit.Micros
}

// find finds out what the region may use in the window of a limit that runs at a time of its store, by permit. Of a rule that the
// aggregator lacks it decides on nothing, whatever it decides on others.
func (src *source) find(p *engine.Policy, now limit.Micros, unknown bool) {
	src.window = reserve.WindowOf(p.Limit.Spec())
	src.begin = src.window.Begin(now)
	if src.share, src.lendable = src.permit.For(src.window, src.begin); !src.lendable {
		src.share, _ = src.permit.Part()
	}
	switch src.since = src.permit.Cut; {
	case src.lendable && src.window.Refills:
		src.since = src.window.Begin(src.permit.After(src.begin)) + src.window.Period
	case unknown:
		src.since = src.begin
	}
}

// way is how an ask is answered.
type way uint8

const (
	nothing   way = iota // the reserve is not to be had: on_failure decides
	byReserve            // by the reserve, as an ordinary counter
	byTrickle            // by what comes in at the region's share of the rate
)

// plan adds the asks of a group that the region answers by itself. A group that the aggregator denied is only taken
// up if the reserve may answer all of it.
func (s *Store) plan(ctx context.Context, t *taking, asks []engine.Ask, grants []lease.Grant, first, next int) {
	denied := engine.IsDenied(asks[first:next], grants[first:next])
	was := len(t.at)
	for i := first; i < next; i++ {
		a, g := &asks[i], &grants[i]
		undecided := g.Status == lease.Unavailable
		if !undecided && g.Status != lease.Denied && !(denied && a.Want.Need > 0) || a.Want.Want == 0 && !a.Peeks() {
			continue
		}
		src := source{decided: !undecided}
		if a.Policy.HasShares() {
			src = s.source(ctx, a, !undecided)
		}
		if src.from == nothing && denied && a.Want.Need > 0 {
			t.at, t.from = t.at[:was], t.from[:was]
			denyUndecided(asks[first:next], grants[first:next])
			return
		}
		if src.from != nothing {
			t.at, t.from = append(t.at, i), append(t.from, src)
		}
	}
}

// denyUndecided answers those asks of a denied group that were not decided: nothing was granted to them, as to the others
// that were not denied.
func denyUndecided(asks []engine.Ask, grants []lease.Grant) {
	for i := range grants {
		if a, g := &asks[i], &grants[i]; g.Status == lease.Unavailable && a.Policy.HasShares() {
			*g = lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity, StillOwed: a.Want.Overdrawn > 0}
		}
	}
}

// source is where the region takes what an ask wants. For one that was denied it is the reserve, where the region has
// permission by now, or nothing.
func (s *Store) source(ctx context.Context, a *engine.Ask, decided bool) source {
	k, unknown := s.config.Keeper, s.config.RuleUnknown(a.Policy.Rule)
	src := source{decided: decided, permit: k.permission()}
	src.find(a.Policy, k.now(), unknown)
	if !decided && k.permissionDue(src.permit, src.begin) {
		var ok bool
		if src.permit, ok = k.permit(ctx, src.begin); !ok {
			return src
		}
		src.find(a.Policy, k.now(), unknown)
	}
	switch {
	case src.lendable && !src.window.Refills:
		src.from = byReserve
	case src.lendable, !decided && src.permit.Known() && !src.permit.Extends(src.begin):
		src.from = byTrickle
	}
	return src
}

// take answers the asks of a plan.
func (s *Store) take(ctx context.Context, t *taking, asks []engine.Ask, grants []lease.Grant) {
	s.takeFrom(ctx, byReserve, s.config.Own, t, asks, grants)
	s.takeFrom(ctx, byTrickle, s.config.Raw, t, asks, grants)
}

// takeFrom answers those in one way.
func (s *Store) takeFrom(ctx context.Context, from way, store engine.Store, t *taking, asks []engine.Ask, grants []lease.Grant) {
	var own engine.Selection
	var sources []*source
	for n, i := range t.at {
		src := &t.from[n]
		if src.from != from {
			continue
		}
		a, ok := s.ownAsk(&asks[i], src)
		if !ok {
			grants[i] = s.answer(&asks[i], src, &lease.Grant{Status: lease.Denied}, grants[i])
			continue
		}
		own.Asks, own.At, sources = append(own.Asks, a), append(own.At, i), append(sources, src)
	}
	own.Acquire(ctx, store)
	for n, i := range own.At {
		g := &own.Grants[n]
		if g.Granted > 0 && !s.isFor(ctx, &asks[i], sources[n], g) { // it was charged in another window: the ask comes again soon
			engine.SendBack(ctx, store, []engine.Ask{own.Asks[n].GiveBack(g)})
			g = &lease.Grant{Status: lease.Denied}
		}
		grants[i] = s.answer(&asks[i], sources[n], g, grants[i])
	}
}

// ownAsk is an ask for the region's counter, without what it reports. False: nothing has come in that it could get.
func (s *Store) ownAsk(a *engine.Ask, src *source) (engine.Ask, bool) {
	w := &a.Want
	own := engine.Ask{Key: a.Key, Group: a.Group, Want: lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Soon: w.Soon, Fresh: w.Fresh}}
	if src.from == byReserve {
		own.Policy = s.reserves.Of(a.Policy, src.share, reserveOf)
		return own, true
	}
	spec, now := a.Policy.Limit.Spec(), s.config.Keeper.now()
	begin, until := src.since, now
	if !src.window.Refills {
		begin = max(src.begin, trickleWindow(spec, src.window).Begin(now))
	}
	if !src.lendable { // another replica may have ended the outage since the record was read
		until = s.config.Keeper.readAt()
	}
	if spec.Calendar != nil { // windows are not all of one length
		spec.Period = src.window.Near(src.begin)[2] - src.begin
	}
	units := reserve.Trickle(spec, src.share, begin, src.since, until)
	if src.window.Refills {
		id := sinceID(src.since)
		own.Policy = trickleBucket(a.Policy, id, src.share)
		fill(&own, id, units)
	} else {
		own.Policy = trickle(a.Policy, src.since, units)
		own.Want.Waiting = own.Want.Want // what comes in goes to whoever asks, as in a bucket
	}
	return own, a.Peeks() || units >= max(w.Need, 1) && !s.denials.has(a, now)
}

// isFor reports whether what was granted was charged in a window in which it may be used.
func (s *Store) isFor(ctx context.Context, a *engine.Ask, src *source, g *lease.Grant) bool {
	now := s.config.Keeper.now()
	switch {
	case src.from == byTrickle && src.window.Refills:
		return true
	case src.from == byTrickle:
		part := trickleWindow(a.Policy.Limit.Spec(), src.window)
		begin, ok := labelled(part, now, g.Lease)
		// Not all begin with a window of the limit. Of one that runs then, only what came in since counts.
		return ok && begin+part.Period > src.begin && src.window.Begin(max(begin, src.begin)) == src.begin
	}
	begin, ok := charged(a.Policy.Limit, src.window, now, g.Lease)
	if !ok {
		return false
	}
	permit := src.permit
	if !src.decided && permit.Extends(begin) { // it began just now
		permit, _ = s.config.Keeper.permit(ctx, begin)
	}
	share, ok := permit.For(src.window, begin)
	return ok && share >= src.share
}

// answer is the answer of a region's counter to an ask that the aggregator answered otherwise.
func (s *Store) answer(a *engine.Ask, src *source, g *lease.Grant, other lease.Grant) lease.Grant {
	switch {
	case g.Status == lease.Unavailable && src.decided:
		return other
	case g.Status == lease.Unavailable:
		return *g
	case g.Status == lease.Denied && src.decided:
		return other
	}
	out := *g
	out.Limit = a.Policy.Terms.Capacity // clients see the limit of the rule
	if out.StillOwed = a.Want.Overdrawn > 0; src.decided {
		out.StillOwed = other.StillOwed
	}
	switch {
	case g.Status == lease.Denied:
		s.rejected.Inc()
		s.denials.note(a, s.config.Keeper.now()+denialFor)
		out.AskAfter = a.Policy.Terms.Interval
		if out.RetryAfter = retry(a, src); src.from == byReserve || src.window.Refills && g.RetryAfter > 0 {
			out.RetryAfter = min(out.RetryAfter, max(g.RetryAfter, out.AskAfter))
		}
	case g.Granted > 0 && src.from == byReserve:
		s.granted.Add(float64(g.Granted))
		out.Lease ^= reserveTag
	case g.Granted > 0:
		s.trickled.Add(float64(g.Granted))
		if out.Lease ^= trickleTag; src.window.Refills {
			out.Lease = sinceID(src.since)
		}
		if !src.lendable {
			s.config.Aggregator.Owe(a, g.Granted)
		}
	}
	return out
}

// retry is after how long a client should come back: when its need has come in, at the region's share of the limit's
// rate.
func retry(a *engine.Ask, src *source) lease.Millis {
	spec := a.Policy.Limit.Spec()
	after := maxRetry
	if rate := int64(src.share) * spec.Count; rate > 0 {
		perUnit := float64(spec.Period) * float64(reserve.Whole) / float64(rate)
		after = limit.Micros(min(float64(maxRetry), perUnit*float64(max(a.Want.Need, 1))))
	}
	return max(lease.CeilMillis(after), a.Policy.Terms.Interval)
}
