package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

// gappy is a store of which the keys in away do not answer.
type gappy struct {
	*memory.Store
	away []string
}

func (g *gappy) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		if slices.Contains(g.away, string(asks[i].Key)) {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		} else {
			g.Store.Acquire(ctx, asks[i:i+1], grants[i:i+1])
		}
	}
}

// books is a fallback that follows on_failure, admits no local request, and counts
// what it admitted.
type books struct{ admitted, holders int }

func (b *books) Fall(a *engine.Ask, holders int) engine.Judgment {
	v := a.Policy.Failed(a.Policy.OnFailure.FailUncounted())
	if v.Admitted {
		b.admitted++
	}
	b.holders = holders
	return v
}

func (b *books) Refund(*engine.Ask, *engine.Judgment) { b.admitted-- }

// court is a judge with all that it is made of.
type court struct {
	engine.Judge
	store   *gappy
	books   *books
	metrics *telemetry.Registry
	log     *bytes.Buffer
}

func newCourt() *court {
	c := &court{
		store:   &gappy{Store: memory.New(memory.Config{MaxKeys: 100, MaxBytes: 1 << 20})},
		books:   new(books),
		metrics: telemetry.NewRegistry("test"),
		log:     new(bytes.Buffer),
	}
	c.Judge = engine.NewJudge(c.store, c.books, func() int { return 3 }, c.metrics, slog.New(slog.NewTextHandler(c.log, nil)))
	return c
}

// ruling is a policy of ten units an hour.
func ruling(t testing.TB, name string, how lease.OnFailure) *engine.Policy {
	t.Helper()
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Hour}))(t)
	p := engine.NewPolicy(name, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
	p.OnFailure = how
	return p
}

func (c *court) judge(t testing.TB, asks ...engine.Ask) []engine.Judgment {
	judgments := make([]engine.Judgment, len(asks))
	c.Judge.Judge(t.Context(), asks, judgments)
	return judgments
}

func (c *court) left(t testing.TB, p *engine.Policy, key string) int64 {
	grants := make([]lease.Grant, 1)
	c.store.Store.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte(key)}}, grants)
	return grants[0].Remaining
}

func units(p *engine.Policy, key string, group uint32, need int64) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte(key), Group: group, Want: lease.Want{Need: need, Waiting: need, Want: need}}
}

func TestJudgeOfAGroup(t *testing.T) {
	const away = "away"
	for _, c := range []struct {
		name     string
		how      lease.OnFailure // of the second rule
		key      string          // of it
		need     int64           // of the first rule, which always answers
		admitted bool
		rejected [2]bool
		degraded engine.Degraded
		left     int64 // of the first rule
		books    int   // degraded admissions that stand
	}{
		{name: "both granted", key: "there", need: 2, admitted: true, left: 8},
		{name: "allowed", how: lease.FailureAllow, key: away, need: 2, admitted: true, degraded: engine.FailedAllow, left: 8, books: 1},
		{name: "denied by failure", how: lease.FailureDeny, key: away, need: 2, rejected: [2]bool{false, true}, degraded: engine.FailedDeny, left: 10},
		{name: "no local share", how: lease.FailureLocal, key: away, need: 2, rejected: [2]bool{false, true}, degraded: engine.FailedLocal, left: 10},
		{name: "allowed beside a denial", how: lease.FailureAllow, key: away, need: 11, rejected: [2]bool{true, false}, degraded: engine.FailedAllow, left: 10},
		{name: "both rejected", how: lease.FailureDeny, key: away, need: 11, rejected: [2]bool{true, true}, degraded: engine.FailedDeny, left: 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			bench := newCourt()
			bench.store.away = []string{away}
			first, second := ruling(t, "first", lease.FailureAllow), ruling(t, "second", c.how)
			v := bench.judge(t, units(first, "k", 1, c.need), units(second, c.key, 1, 1))
			for i := range v {
				if v[i].Admitted != c.admitted || v[i].Rejected != c.rejected[i] {
					t.Errorf("ask %d: %+v, want admitted %v, rejected %v", i, v[i], c.admitted, c.rejected[i])
				}
			}
			if v[0].Degraded != engine.Sound || v[1].Degraded != c.degraded {
				t.Errorf("degraded %v and %v, want sound and %v", v[0].Degraded, v[1].Degraded, c.degraded)
			}
			if left := bench.left(t, first, "k"); left != c.left || bench.books.admitted != c.books {
				t.Errorf("%d left and %d in the books, want %d and %d", left, bench.books.admitted, c.left, c.books)
			}
		})
	}
}

// Requests of one call are judged apart, and what failed elsewhere comes back once.
func TestJudgeGivesBack(t *testing.T) {
	c := newCourt()
	c.store.away = []string{"away"}
	a, b := ruling(t, "a", lease.FailureAllow), ruling(t, "b", lease.FailureAllow)
	asks := []engine.Ask{units(a, "k", 0, 3), units(b, "k", 7, 4), units(a, "away", 7, 1), units(b, "k", 0, 9), units(a, "k", 0, 0)}
	v := c.judge(t, asks...)
	for i, want := range []bool{true, true, true, false, true} {
		if v[i].Admitted != want {
			t.Errorf("ask %d: %+v, want admitted %v", i, v[i], want)
		}
	}
	for range 2 {
		c.GiveBack(t.Context(), asks, v)
	}
	if left, rest := c.left(t, a, "k"), c.left(t, b, "k"); left != 10 || rest != 10 || c.books.admitted != 0 || c.books.holders != 3 {
		t.Errorf("%d and %d of 10 left, books %+v", left, rest, c.books)
	}
	measure.Has(t, c.metrics.Handler(), `weir_decisions_total{rule="a",verdict="admitted"} 3`)
	measure.Has(t, c.metrics.Handler(), `weir_decisions_total{rule="b",verdict="denied"} 1`)
	measure.Has(t, c.metrics.Handler(), `weir_degraded_total{how="allow",rule="a"} 1`)
}

// The metrics of a rule go with it, and come back with it from zero.
func TestMetricsOfRemovedRules(t *testing.T) {
	c := newCourt()
	stays, goes := ruling(t, "stays", lease.FailureAllow), ruling(t, "goes", lease.FailureAllow)
	c.store.away = []string{"away"}
	for _, p := range []*engine.Policy{stays, goes} {
		c.judge(t, units(p, "k", 0, 1), units(p, "away", 0, 1))
	}
	measure.Has(t, c.metrics.Handler(), `weir_degraded_total{how="allow",rule="goes"} 1`)
	c.Forget(func(name string) bool { return name == "stays" })
	if strings.Contains(measure.Page(c.metrics.Handler()), `rule="goes"`) {
		t.Error("there are metrics of a rule that has gone")
	}
	measure.Has(t, c.metrics.Handler(), `weir_decisions_total{rule="stays",verdict="admitted"} 2`)
	c.judge(t, units(goes, "k", 0, 1))
	measure.Has(t, c.metrics.Handler(), `weir_decisions_total{rule="goes",verdict="admitted"} 1`)
}
