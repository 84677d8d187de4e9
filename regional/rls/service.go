package rls

import (
	"context"
	"errors"
	"slices"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

// errUnconfigured is the answer before the first configuration.
var errUnconfigured = status.Error(codes.Unavailable, "no rate limit configuration has been loaded yet")

// ShouldRateLimit decides on a request. The error is a *[RequestError], or says that
// there is no configuration yet, or that the request met a mistake in this server.
func (s *Server) ShouldRateLimit(ctx context.Context, request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	begin := time.Now()
	response, err := s.answer(ctx, begin, request)
	seconds := time.Since(begin).Seconds()
	s.metrics.seconds.Observe(seconds)
	s.metrics.hits.request(seconds, err)
	switch {
	case errors.Is(err, errUnconfigured):
		s.metrics.unconfigured.Inc()
	case errors.Is(err, errPanicked):
		s.metrics.internal.Inc()
	case err != nil:
		s.metrics.invalid.Inc()
	case response.OverallCode == rlspb.RateLimitResponse_OK:
		s.metrics.ok.Inc()
	default:
		s.metrics.overLimit.Inc()
	}
	return response, err
}

func (s *Server) answer(ctx context.Context, begin time.Time, request *rlspb.RateLimitRequest) (response *rlspb.RateLimitResponse, err error) {
	defer s.survive("ShouldRateLimit", &err)
	rules := s.rules.Load()
	if rules == nil {
		return nil, errUnconfigured
	}
	if err := check(request); err != nil {
		return nil, err
	}
	c := calls.Get().(*call)
	c.request, c.rules = request, rules
	response, err = s.decide(ctx, begin, c)
	c.release() // not of what panicked: others may still hold on to it
	return response, err
}

func (s *Server) decide(ctx context.Context, begin time.Time, c *call) (*rlspb.RateLimitResponse, error) {
	if err := s.match(c); err != nil {
		return nil, err
	}
	c.prepareAsks(!s.cfg.ChargeDenied)
	if c.mixed {
		s.narrow(c)
	}
	c.judgments = slices.Grow(c.judgments[:0], len(c.asks))[:len(c.asks)]
	clear(c.judgments)
	if len(c.asks) > 0 {
		ctx, cancel := context.WithDeadline(ctx, s.deadline(ctx, begin))
		s.cfg.Judge.Judge(ctx, c.asks, c.judgments)
		cancel()
	}
	refused := s.weigh(c) && !s.cfg.Shadow
	c.free = refused && !s.cfg.ChargeDenied
	response := s.reply(c, refused)
	s.settle(ctx, c)
	return response, nil
}

// deadline is until when the store has time to answer.
func (s *Server) deadline(ctx context.Context, begin time.Time) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return begin.Add(s.cfg.Budget)
	}
	return end.Add(-min(end.Sub(begin)/returnShare, returnTime))
}

// weigh notes which descriptors are over their limit, and reports whether the
// request is to be refused for it: one is over that enforces its limit, or all that
// are quotas.
func (s *Server) weigh(c *call) bool {
	refused, quotas, spent := false, 0, 0
	for i := range c.descriptors {
		d := &c.descriptors[i]
		if s.isQuota(d) {
			quotas++
		}
		if d.ask < 0 {
			continue
		}
		d.refused = c.isOver(i)
		if c.anyOver && !d.refused && d.rule.mode != enforce && !s.cfg.ChargeDenied {
			d.refused = c.isOverAfter(i)
		}
		c.anyOver = c.anyOver || d.refused
		switch {
		case !d.refused:
		case d.rule.mode == enforce:
			refused = true
		case d.rule.mode == quota:
			spent++
		}
	}
	return refused || quotas > 0 && spent == quotas
}

// isOver reports whether descriptor i is over its limit. Of those that one ask is for, and
// of those that were not judged because another one is over, each is for which too little
// is left after those before it.
func (c *call) isOver(i int) bool {
	d := &c.descriptors[i]
	v := &c.judgments[d.ask]
	switch {
	case !v.Refused && v.Degraded != limiter.Sound:
		return false
	case c.asks[d.ask].Want.Need == d.hits && (v.Admitted || v.Refused):
		return v.Refused
	case c.used(i)+c.through(i) > d.rule.policy.Terms.Capacity:
		return true
	}
	if v.Refused && d.peek() { // how far beyond its limit the counter is may not be known
		return d.told == 0 && v.Grant.Remaining == 0
	}
	// One has to be, whatever is told to be left.
	return v.Refused && c.after(i) == 0 &&
		!slices.ContainsFunc(c.descriptors[:i], func(o described) bool { return o.ask == d.ask && o.refused })
}

// isOverAfter reports whether descriptor i, which was granted what it asks for by itself,
// is over its limit because those before it are that charge the same counter: too little
// is left for it after them.
func (c *call) isOverAfter(i int) bool {
	d := &c.descriptors[i]
	if v := &c.judgments[d.ask]; !v.Admitted || v.Degraded != limiter.Sound {
		return false
	}
	refused, _ := c.before(i)
	return refused > 0 && refused+c.used(i)+c.through(i) > d.rule.policy.Terms.Capacity
}

// used is what was used of the counter of descriptor i before the request or, if several
// asks charge it, before its own; as far as this replica knows: what it has not heard of
// since the counter was new is new.
func (c *call) used(i int) int64 {
	d := &c.descriptors[i]
	a, v := &c.asks[d.ask], &c.judgments[d.ask]
	if !v.Admitted && d.told > 0 {
		a, v = &c.asks[d.told], &c.judgments[d.told]
	}
	if (!v.Admitted || a.Want.Need == 0) && v.Degraded == limiter.Sound && v.Grant.Reset <= 0 {
		return 0
	}
	granted := v.Grant.Granted
	if v.Admitted && v.Degraded != limiter.Sound { // nothing was granted, but it is counted
		granted = a.Want.Need
	}
	return a.Policy.Terms.Capacity - v.Grant.Remaining - granted
}

// before is what the descriptors before i asked of its counter, each by itself: what they
// were refused, and what they were granted.
func (c *call) before(i int) (refused, granted int64) {
	d := &c.descriptors[i]
	a := &c.asks[d.ask]
	for j := range c.descriptors[:i] {
		o := &c.descriptors[j]
		switch {
		case o.ask < 0 || o.ask == d.ask || !sameCounter(a, &c.asks[o.ask]):
		case o.refused:
			refused += o.hits
		default:
			granted += c.judgments[o.ask].Grant.Granted
		}
	}
	return refused, granted
}

// through is what descriptor i and those before it charge its counter in the same ask, and
// after is what those after it do.
func (c *call) through(i int) int64 {
	d := &c.descriptors[i]
	if need := c.asks[d.ask].Want.Need; need != d.hits {
		return need - c.after(i)
	}
	return d.hits
}

func (c *call) after(i int) (units int64) {
	ask := c.descriptors[i].ask
	for _, d := range c.descriptors[i+1:] {
		if d.ask == ask {
			units += d.hits
		}
	}
	return units
}

// isQuota reports whether a descriptor counts among those of which one that is not
// over its limit lets the request pass. As in envoyproxy/ratelimit a rule in quota and
// shadow mode is one, which is never over, and with QUOTA_MODE so is what nothing
// limits: what no rule matches, and what is replaced. Unlimited ones are not.
func (s *Server) isQuota(d *described) bool {
	if d.rule == nil || d.replaced && d.rule.policy != nil {
		return s.cfg.Quota
	}
	return d.rule.policy != nil && d.rule.quota
}

// settle gives back what is over a limit and, of a request that costs nothing, everything.
func (s *Server) settle(ctx context.Context, c *call) {
	back := 0
	for i := range c.descriptors {
		d := &c.descriptors[i]
		if d.ask < 0 || d.peek() || !c.judgments[d.ask].Admitted {
			continue
		}
		if c.free || d.refused {
			back++
		} else {
			c.judgments[d.ask].Admitted = false // it stays charged
		}
	}
	if back > 0 {
		s.cfg.Judge.GiveBack(ctx, c.asks, c.judgments)
	}
}

// left is how many units remain when descriptor i is counted and those after it are not
// yet; of a request that charges nothing, all that was left.
func (c *call) left(i int) int64 {
	d := &c.descriptors[i]
	left := d.rule.policy.Terms.Capacity - c.used(i)
	switch {
	case !c.free && (c.judgments[d.ask].Admitted || d.peek()):
		left -= c.through(i)
		if c.anyOver && d.rule.mode != enforce {
			refused, _ := c.before(i) // as if it had been charged
			left -= refused
		}
	case c.free && i > 0 && d.rule.mode != enforce:
		_, granted := c.before(i) // comes back as well
		left += granted
	}
	return left
}

// informed reports whether a judgment's figures are true. While the store does not
// answer they are only where a denial is remembered, or where this replica counts
// its share by itself.
func informed(v *limiter.Judgment) bool {
	switch v.Degraded {
	case limiter.Sound, limiter.FailedDenied:
		return true
	case limiter.FailedLocal:
		return v.Grant.Reset > 0 && (v.Refused || v.Grant.Remaining > 0)
	}
	return false
}

// untilReset is when the limit is whole again. What is over a limit that units come
// back to one by one may be asked again sooner: at the earliest then. It is in whole
// seconds, rounded up: Envoy drops what is less, and who comes then must not be too early.
func (s *Server) untilReset(d *described, v *limiter.Judgment) time.Duration {
	ms := v.Grant.Reset
	trickles := d.rule.policy.Limit.Spec().Algorithm != limit.FixedWindow
	if d.refused && trickles && v.Grant.RetryAfter > 0 && v.Grant.RetryAfter < never {
		ms = v.Grant.RetryAfter
	}
	until := time.Duration(ms) * time.Millisecond
	if window := int64(d.rule.window); window > 0 {
		if ms <= 0 {
			until = time.Duration(window-s.cfg.Now().UnixMicro()%window) * time.Microsecond
		}
		until = min(until, time.Duration(window)*time.Microsecond)
	}
	return (until + time.Second - 1).Truncate(time.Second)
}

// never is a RetryAfter that no waiting brings about: longer than any period.
const never = lease.Millis(400 * 24 * time.Hour / time.Millisecond)
