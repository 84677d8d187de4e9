package engine

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/telemetry"
)

// soundAfter is how long no decision on a rule may have been degraded until the log
// has it that the rule has recovered: while one shard does not answer, sound and
// degraded decisions on different keys of a rule alternate.
const soundAfter = 10 * time.Second

// judge is a Judge over a store.
type judge struct {
	store   Store
	fall    Fallback
	holders func() int
	log     *slog.Logger
	grants  sync.Pool // of *[]lease.Grant

	decisions, degraded *telemetry.CounterVec
	rules               sync.Map // by rule: *judged
}

// judged is what is kept of one rule.
type judged struct {
	admitted, denied, other telemetry.Counter
	degraded                [FailedDenied + 1]telemetry.Counter // by Degraded; Sound has none

	logged atomic.Uint32 // 1<<Degraded: ways that are in the log
	failed atomic.Int64  // when a decision was degraded last, Unix ms
}

// NewJudge makes a judge. fall decides if the store does not answer; nil: each rule's
// on_failure decides alone, without memory (local then rejects). holders returns among how
// many replicas a limit is shared; nil: unknown. Metrics and log may be nil.
func NewJudge(store Store, fall Fallback, holders func() int, metrics *telemetry.Registry, log *slog.Logger) Judge {
	if holders == nil {
		holders = func() int { return 0 }
	}
	metrics, log = cmp.Or(metrics, telemetry.NewRegistry("")), cmp.Or(log, slog.New(slog.DiscardHandler))
	return &judge{
		store: store, fall: orForgetful(fall), holders: holders, log: log,
		grants:    sync.Pool{New: func() any { return new([]lease.Grant) }},
		decisions: metrics.Counters("weir_decisions_total", "Requests decided here, by rule: admitted, denied, or denied by another rule of the request (other).", "rule", "verdict"),
		degraded:  metrics.Counters("weir_degraded_total", "Decisions made without the store, by rule: allow or deny (on_failure), local (this replica's share), denied (as before the failure).", "rule", "how"),
	}
}

// Judge decides.
func (j *judge) Judge(ctx context.Context, asks []Ask, judgments []Judgment) {
	held := j.grants.Get().(*[]lease.Grant)
	defer j.grants.Put(held)
	grants := slices.Grow((*held)[:0], len(asks))[:len(asks)]
	*held = grants
	j.store.Acquire(ctx, asks, grants)
	for i := 0; i < len(asks); {
		n := i + GroupLen(asks[i:])
		j.request(ctx, asks[i:n], grants[i:n], judgments[i:n])
		i = n
	}
}

// request decides on the asks of one group, or on one that is alone.
func (j *judge) request(ctx context.Context, asks []Ask, grants []lease.Grant, judgments []Judgment) {
	rejected := false
	for i := range asks {
		judgments[i] = j.judgment(&asks[i], &grants[i])
		rejected = rejected || judgments[i].Rejected
	}
	if rejected {
		j.GiveBack(ctx, asks, judgments)
	}
	for i := range asks {
		j.count(ctx, asks[i].Policy.Rule, &judgments[i])
	}
}

// judgment decides on an ask as if it were alone. A peek is rejected if nothing is left.
func (j *judge) judgment(a *Ask, g *lease.Grant) Judgment {
	if g.Status == lease.Unavailable {
		return j.fall.Fall(a, j.holders())
	}
	spent := a.Peeks() && g.Remaining == 0
	return Judgment{
		Admitted: g.Status == lease.OK && (a.Want.Need == 0 || g.Granted > 0) && !spent,
		Rejected: g.Status != lease.OK || spent,
		Grant:    *g,
	}
}

// GiveBack returns what was admitted.
func (j *judge) GiveBack(ctx context.Context, asks []Ask, judgments []Judgment) {
	var back []Ask
	for i := range asks {
		a, v := &asks[i], &judgments[i]
		switch {
		case !v.Admitted:
			continue
		case v.Degraded != Sound:
			j.fall.Refund(a, v)
		case v.Grant.Granted > 0:
			back = append(back, a.GiveBack(&v.Grant))
		}
		v.Admitted = false
	}
	SendBack(ctx, j.store, back)
}

// count counts a judgment. It logs when decisions on a rule begin to be degraded, in each
// way once, and when they are sound again.
func (j *judge) count(ctx context.Context, rule string, v *Judgment) {
	r := j.rule(rule)
	switch {
	case v.Admitted:
		r.admitted.Inc()
	case v.Rejected:
		r.denied.Inc()
	default:
		r.other.Inc()
	}
	if v.Degraded == Sound {
		if r.logged.Load() != 0 && time.Since(time.UnixMilli(r.failed.Load())) >= soundAfter && r.logged.Swap(0) != 0 {
			j.log.Info("rule recovered: the store answers", "rule", rule)
		}
		return
	}
	r.degraded[v.Degraded].Inc()
	telemetry.Degraded(ctx, rule, v.Degraded.String())
	r.failed.Store(time.Now().UnixMilli())
	if way := uint32(1) << v.Degraded; r.logged.Load()&way == 0 && r.logged.Or(way)&way == 0 {
		j.log.WarnContext(ctx, "rule degraded: the store does not answer", "rule", rule, "how", v.Degraded.String(), "admitted", v.Admitted)
	}
}

// Forget drops what is kept of rules that are not live. A request in flight may bring a
// rule's metrics back; the next call drops them.
func (j *judge) Forget(live func(rule string) bool) {
	j.rules.Range(func(key, _ any) bool {
		if name := key.(string); !live(name) {
			j.rules.Delete(name)
			j.decisions.DeletePartialMatch(telemetry.Labels{"rule": name})
			j.degraded.DeletePartialMatch(telemetry.Labels{"rule": name})
		}
		return true
	})
}

// rule finds or makes what is kept of a rule.
func (j *judge) rule(name string) *judged {
	if r, ok := j.rules.Load(name); ok {
		return r.(*judged)
	}
	r := &judged{
		admitted: j.decisions.WithLabelValues(name, "admitted"),
		denied:   j.decisions.WithLabelValues(name, "denied"),
		other:    j.decisions.WithLabelValues(name, "other"),
	}
	for how := FailedAllow; how <= FailedDenied; how++ {
		r.degraded[how] = j.degraded.WithLabelValues(name, how.String())
	}
	there, _ := j.rules.LoadOrStore(name, r)
	return there.(*judged)
}

func orForgetful(f Fallback) Fallback {
	if f == nil {
		return forgetful{}
	}
	return f
}

// forgetful is a fallback without memory.
type forgetful struct{}

func (forgetful) Fall(a *Ask, _ int) Judgment {
	return a.Policy.Failed(a.Policy.OnFailure.FailUncounted())
}

func (forgetful) Refund(*Ask, *Judgment) {}
