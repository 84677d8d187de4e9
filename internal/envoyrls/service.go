package envoyrls

import (
	"context"
	"errors"
	"slices"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// errUnconfigured is the answer before the first configuration.
var errUnconfigured = status.Error(codes.Unavailable, "no rate limit configuration has been loaded yet")

// ShouldRateLimit decides on a request. The error is a *[RequestError], or there is no
// configuration yet, or the request met a mistake in this server.
func (s *Server) ShouldRateLimit(ctx context.Context, request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	var parents []string
	if s.cfg.Tracer != nil {
		parents = metadata.ValueFromIncomingContext(ctx, "traceparent")
	}
	return s.shouldRateLimit(ctx, parents, request)
}

// shouldRateLimit decides on a request with the traceparent headers that it came with.
func (s *Server) shouldRateLimit(ctx context.Context, parents []string, request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	begin := time.Now()
	ctx, span := s.serve(ctx, parents)
	response, err := s.answer(ctx, begin, request)
	describe(span, request, response, err)
	span.End()
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
	defer s.recoverPanic("ShouldRateLimit", &err)
	rules := s.rules.Load()
	if rules == nil {
		return nil, errUnconfigured
	}
	if err := check(request); err != nil {
		return nil, err
	}
	q := queries.Get().(*query)
	q.request, q.rules = request, rules
	response, err = s.decide(ctx, begin, q)
	q.release() // not after a panic: others may still use its memory
	return response, err
}

func (s *Server) decide(ctx context.Context, begin time.Time, q *query) (*rlspb.RateLimitResponse, error) {
	if err := s.match(q); err != nil {
		return nil, err
	}
	q.prepareAsks(!s.cfg.ChargeDenied)
	s.judge(ctx, begin, q)
	refused := s.weigh(q) && !s.cfg.Shadow
	q.free = refused && !s.cfg.ChargeDenied
	response := s.reply(q, refused)
	s.settle(ctx, q)
	return response, nil
}

// judge has the asks decided, round by round.
func (s *Server) judge(ctx context.Context, begin time.Time, q *query) {
	q.judgments = slices.Grow(q.judgments[:0], len(q.asks))[:len(q.asks)]
	clear(q.judgments)
	if len(q.asks) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, s.deadline(ctx, begin))
	defer cancel()
	at := 0
	for _, end := range q.rounds {
		s.cfg.Judge.Judge(ctx, q.asks[at:end], q.judgments[at:end])
		at = end
	}
}

// deadline is the time by which the store has to answer.
func (s *Server) deadline(ctx context.Context, begin time.Time) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return begin.Add(s.cfg.Budget)
	}
	return end.Add(-min(end.Sub(begin)/returnShare, returnTime))
}

// weigh notes which descriptors are over their limit, and reports whether the request is
// refused: one that enforces its limit is over, or all quotas are.
func (s *Server) weigh(q *query) bool {
	refused, quotas, spent := false, 0, 0
	for i := range q.descriptors {
		d := &q.descriptors[i]
		if s.isQuota(d) {
			quotas++
		}
		if d.ask < 0 {
			continue
		}
		d.refused = q.isOver(i)
		q.uncharged = q.uncharged || d.refused && !s.cfg.ChargeDenied
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

// isOver reports whether too little is left for descriptor i after those before it on its
// counter, as if each of them had been charged. For a check nothing is too little, unless
// the request itself was granted the last units.
func (q *query) isOver(i int) bool {
	d := &q.descriptors[i]
	v := &q.judgments[d.ask]
	if v.Degraded != engine.Sound && !v.Refused {
		return false
	}
	over := q.used(i)+q.through(i) > d.rule.policy.Terms.Capacity
	switch {
	case d.peek() && v.Degraded == engine.Sound && q.before(i).count > 0:
		return over
	case d.alone:
		return over || v.Refused
	case q.asks[d.ask].Want.Need == d.hits && (v.Admitted || v.Refused):
		return v.Refused
	}
	// Of those that share an ask one is over if that is refused, whatever the figures are.
	return over || v.Refused && q.after(i) == 0 &&
		!slices.ContainsFunc(q.descriptors[:i], func(o described) bool { return o.ask == d.ask && o.refused })
}

// used is what was used of the counter of descriptor i before its ask. It is based on the
// calls of this replica: a counter for which it had none since it was new counts as new.
func (q *query) used(i int) int64 {
	d := &q.descriptors[i]
	a, v := &q.asks[d.ask], &q.judgments[d.ask]
	if (!v.Admitted || a.Want.Need == 0) && v.Degraded == engine.Sound && v.Grant.Reset <= 0 {
		return 0
	}
	granted := v.Grant.Granted
	if v.Admitted && v.Degraded != engine.Sound { // nothing was granted, but it is counted
		granted = a.Want.Need
	}
	used := a.Policy.Terms.Capacity - v.Grant.Remaining - granted
	if d.peek() { // what is used beyond its limit, only the charge before it knows
		used = max(used, q.before(i).count)
	}
	return used
}

// earlier is what became of descriptors before another one of the same counter, by asks of
// their own.
type earlier struct {
	refused, granted int64 // units; refused: that were not charged
	count            int64 // of the counter, if the last was granted; else 0
}

// before sums up what became of the descriptors before i on its counter.
func (q *query) before(i int) (e earlier) {
	d := &q.descriptors[i]
	for j := range q.descriptors[:i] {
		o := &q.descriptors[j]
		if o.ask < 0 || o.peek() || o.ask == d.ask || !sameCounter(d, o) {
			continue
		}
		v := &q.judgments[o.ask]
		e.count = 0
		switch {
		case v.Admitted:
			e.granted += v.Grant.Granted
			if v.Degraded == engine.Sound {
				e.count = o.rule.policy.Terms.Capacity - v.Grant.Remaining
			}
		case q.uncharged:
			e.refused += o.hits
		}
	}
	return e
}

// through is what descriptor i charges its counter, with those before it that are not in
// [query.used]: those of the same ask, and those that were refused. Its counterpart after is
// what those after it charge in the same ask.
func (q *query) through(i int) int64 {
	d := &q.descriptors[i]
	if need := q.asks[d.ask].Want.Need; need != d.hits {
		return need - q.after(i)
	}
	if q.uncharged && d.alone {
		return d.hits + q.before(i).refused
	}
	return d.hits
}

func (q *query) after(i int) (units int64) {
	ask := q.descriptors[i].ask
	for _, d := range q.descriptors[i+1:] {
		if d.ask == ask {
			units += d.hits
		}
	}
	return units
}

// isQuota reports whether a descriptor is one of the quotas of the request: one quota
// that is not over lets the request pass. As in envoyproxy/ratelimit a rule in quota and
// shadow mode is a quota that is never over. With QUOTA_MODE so is a descriptor that no
// rule matches, or whose rule is replaced. An unlimited one is not.
func (s *Server) isQuota(d *described) bool {
	if d.rule == nil || d.replaced && d.rule.policy != nil {
		return s.cfg.Quota
	}
	return d.rule.policy != nil && d.rule.quota
}

// settle returns the charges of descriptors that are over their limit, and all charges of
// a request that costs nothing.
func (s *Server) settle(ctx context.Context, q *query) {
	back := 0
	for i := range q.descriptors {
		d := &q.descriptors[i]
		if d.ask < 0 || d.peek() || !q.judgments[d.ask].Admitted {
			continue
		}
		if q.free || d.refused {
			back++
		} else {
			q.judgments[d.ask].Admitted = false // it stays charged
		}
	}
	if back > 0 {
		s.cfg.Judge.GiveBack(ctx, q.asks, q.judgments)
	}
}

// left is how many units remain when descriptor i is counted and those after it are not
// yet; of a request that charges nothing, all that was left.
func (q *query) left(i int) int64 {
	d := &q.descriptors[i]
	left := d.rule.policy.Terms.Capacity - q.used(i)
	switch {
	case !q.free && (q.judgments[d.ask].Admitted || d.peek()):
		left -= q.through(i)
	case q.free && d.alone:
		left += q.before(i).granted // comes back as well
	}
	return left
}

// informed reports whether a judgment's figures are true. While the store does not
// answer this is so only for a cached denial, or where this replica counts its share by
// itself.
func informed(v *engine.Judgment) bool {
	switch v.Degraded {
	case engine.Sound, engine.FailedDenied:
		return true
	case engine.FailedLocal:
		return v.Grant.Reset > 0 && (v.Refused || v.Grant.Remaining > 0)
	}
	return false
}

// untilReset is the time until the limit is whole again. After a refusal by a limit whose
// units come back one by one it is the time until a retry can succeed. It is in whole
// seconds, rounded up: Envoy drops fractions, and a client must not come too early.
func (s *Server) untilReset(d *described, v *engine.Judgment) time.Duration {
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

// never is a RetryAfter of requests that will never succeed: longer than any period.
const never = lease.Millis(400 * 24 * time.Hour / time.Millisecond)
