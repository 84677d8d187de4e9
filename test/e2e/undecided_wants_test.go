package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Two regions have half of each limit. Exact rules, because what is on lease when a region is cut off is another number
// each time.
const undecidedRules = `
regions: { eu: 1, us: 1 }
rules:
  - { name: shared, key: [ { header: x-key } ], limit: 600/4s, algorithm: fixed_window, scope: global, consistency: exact }
  - { name: daily, key: [ { header: x-key } ], limit: 864000/1d, algorithm: fixed_window, scope: global, consistency: exact }
  - { name: filler, key: [ { header: x-key } ], limit: 5/1d, algorithm: fixed_window, scope: global, consistency: exact }
`

// newRule is one that the region has and the aggregator does not.
const newRule = `
  - { name: new, key: [ { header: x-key } ], limit: 600/4s, algorithm: fixed_window, scope: global, consistency: exact }
`

const undecidedWindow = 4 * time.Second

// undecided is a region, its aggregator, and the link between them.
type undecided struct {
	t          *testing.T
	aggregator *region.Region
	link       *stack.Link
	eu         *replica
}

func startUndecided(t *testing.T, flags ...string) *undecided {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("takes windows of 4 s")
	}
	awaitDay()
	dir := proc.LogDir(t)
	u := &undecided{t: t, aggregator: region.New(t, region.Config{Dir: dir, Name: "global", Rules: undecidedRules, Program: "weir-global", Flags: flags})}
	u.aggregator.Start()
	u.link = stack.NewLink(t, u.aggregator.Addr)
	u.eu = &replica{region.New(t, region.Config{
		Dir: dir, Name: "eu", Rules: undecidedRules + newRule, Flags: []string{"--region", "eu", "--global", u.link.Addr, "--state", "off"},
	}), t}
	u.eu.Start()
	proc.Eventually(t, time.Minute, "eu knows its share", func() bool { return u.eu.Metrics()[`weir_remote_calls_total{result="answered"}`] > 4 })
	return u
}

// grant asks for a unit within a budget; nil: the call failed.
func (h *holder) grant(t *testing.T, rule, key string, budget time.Duration) *quotapb.Grant {
	h.seq++
	req := connect.NewRequest(&quotapb.AcquireRequest{
		Protocol: 1, Holder: h.id, Seq: h.seq, Wants: []*quotapb.Want{{Rule: rule, Key: []byte(key), Need: 1, Waiting: 1, Want: 1}},
	})
	req.Header().Set("Connect-Timeout-Ms", strconv.FormatInt(budget.Milliseconds(), 10))
	resp, err := h.client.Acquire(t.Context(), req)
	if err != nil {
		return nil
	}
	return resp.Msg.GetGrants()[0]
}

// demand has many holders ask for a key until then, each after a pause if it was refused, and returns what was granted in each
// window, by the time of the answer.
func (u *undecided) demand(rule, key string, holders int, budget time.Duration, until time.Time) map[time.Time]int64 {
	units, mu := map[time.Time]int64{}, sync.Mutex{}
	together(holders, func(int) {
		for h := u.eu.newHolder(); time.Now().Before(until); {
			g := h.grant(u.t, rule, key, budget)
			if g == nil || g.GetGranted() == 0 {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			mu.Lock()
			units[time.Now().Truncate(undecidedWindow)] += int64(g.GetGranted())
			mu.Unlock()
		}
	})
	return units
}

// shares checks windows from the one that begins 4 s after the cut on: the region has its share of each, and no more.
func (u *undecided) shares(units map[time.Time]int64, cut time.Time, windows int) {
	u.t.Helper()
	u.t.Log(units)
	first := cut.Add(4 * time.Second).Truncate(undecidedWindow).Add(undecidedWindow)
	for n := range windows {
		got := units[first.Add(time.Duration(n)*undecidedWindow)]
		if got < 270 || got > 310 { // an answer may come in the next window
			u.t.Errorf("%d units in window %d after the cut, want the share of 300", got, n)
		}
	}
}

// An aggregator that answers, and has lost its store, decides nothing: the region goes on, as when the aggregator is gone.
func TestAggregatorWithoutItsRedis(t *testing.T) {
	redis := redistest.Start(t)
	u := startUndecided(t, "--redis", redis.Addr)
	if units := u.demand("shared", "k", 8, callBudget, time.Now().Add(time.Second)); len(units) == 0 {
		t.Error("nothing was granted while all was well")
	}
	cut := time.Now()
	redis.Kill()
	units := u.demand("shared", "k", 8, callBudget, cut.Add(5*undecidedWindow))
	u.shares(units, cut.Add(2*time.Second), 1) // for 1.5 s it still answers, and the region renounces
	if units[cut.Add(undecidedWindow).Truncate(undecidedWindow)] == 0 {
		t.Errorf("%v: nothing in the window after Redis was killed", units)
	}
	redis.Restart()
	proc.Eventually(t, time.Minute, "the aggregator decides again", func() bool { return u.eu.Metrics()["weir_reserve_in_use"] == 0 })
}

// A rule that the aggregator does not have yet goes on at the region's share of its rate; all others are decided as ever.
func TestRuleThatTheAggregatorLacks(t *testing.T) {
	u := startUndecided(t)
	begin := time.Now()
	units := u.demand("new", "k", 8, callBudget, begin.Add(3*undecidedWindow))
	t.Log(units)
	for n := range 2 {
		if got := units[begin.Truncate(undecidedWindow).Add(time.Duration(n+1)*undecidedWindow)]; n == 0 && (got < 240 || got > 310) || got > 310 {
			t.Errorf("%d units in a window, want a share of 300", got)
		}
	}
	if u.eu.Metrics()["weir_reserve_in_use"] != 0 {
		t.Error("the reserve is in use")
	}
	if got := u.demand("shared", "k", 8, callBudget, time.Now().Add(undecidedWindow)); maximum(got) < 400 {
		t.Errorf("%v units of another rule: the aggregator grants more than a share", got)
	}
}

func maximum(units map[time.Time]int64) (most int64) {
	for _, n := range units {
		most = max(most, n)
	}
	return most
}

// Keys for which the aggregator has no room are those of the region.
func TestAggregatorTableIsFull(t *testing.T) {
	u := startUndecided(t, "--max-keys", "100", "--state", "off")
	h := u.eu.newHolder()
	full := 0
	for n := 0; full < 20 && n < 2000; n++ {
		if g := h.grant(t, "filler", fmt.Sprintf("key-%d", n), time.Second); g.GetStatus() != quotapb.Status_STATUS_OK {
			full++
		}
	}
	if full < 20 {
		t.Fatal("the aggregator has room for all keys")
	}
	cut := time.Now()
	units := u.demand("shared", "new", 8, callBudget, cut.Add(4*undecidedWindow))
	u.shares(units, cut, 1)
}

// One answer that is late does not keep a client of a daily limit away for a day.
func TestLateAnswerOnADailyLimit(t *testing.T) {
	u := startUndecided(t)
	h := u.eu.newHolder()
	if g := h.grant(t, "daily", "k", callBudget); g.GetGranted() != 1 {
		t.Fatalf("%v while all is well", g)
	}
	u.link.Delay(300 * time.Millisecond)
	g := h.grant(t, "daily", "k", callBudget)
	if g.GetStatus() != quotapb.Status_STATUS_DENIED || g.GetRetryAfterMs() > 10_000 || g.GetAskAfterMs() > 1000 {
		t.Errorf("a late answer: %v, want a retry within 10 s", g)
	}
	u.link.Heal()
	proc.Eventually(t, 20*time.Second, "the aggregator decides again", func() bool { return h.grant(t, "daily", "k", callBudget).GetGranted() == 1 })
	proc.Eventually(t, 20*time.Second, "and wants do not wait for the share of the rate", func() bool {
		return maximum(u.demand("daily", "k", 8, callBudget, time.Now().Add(time.Second))) > 20
	})
}

// A region that is cut off in the middle of a day goes on at its share of the limit's rate, which is 5 a second, and reports
// what it admitted.
func TestCutOffInTheMiddleOfADay(t *testing.T) {
	u := startUndecided(t)
	cut := time.Now()
	u.link.Swallow()
	total := int64(0)
	for _, n := range u.demand("daily", "k", 8, callBudget, cut.Add(15*time.Second)) {
		total += n
	}
	if most := int64(5 * time.Since(cut).Seconds()); total < 40 || total > most+1 {
		t.Errorf("%d units in 15 s, want at most %d and not many less", total, most)
	}
	if trickled := u.eu.Metrics()["weir_trickle_units_granted_total"]; trickled != float64(total) {
		t.Errorf("%v units are counted, %d were granted", trickled, total)
	}
	u.link.Heal()
	h := u.eu.newHolder()
	proc.Eventually(t, 20*time.Second, "the aggregator has charged them", func() bool {
		g := h.grant(t, "daily", "k", callBudget)
		return g.GetStatus() == quotapb.Status_STATUS_OK && u.eu.Metrics()["weir_reserve_in_use"] == 0 && 864_000-int64(g.GetRemaining()) > total
	})
}

// A link that is slow and loses calls, but not all of them: the region has its share of the windows that begin then.
func TestGreyFailure(t *testing.T) {
	u := startUndecided(t)
	cut := time.Now()
	u.link.Slow(485 * time.Millisecond)
	u.link.Lose(0.3)
	units := u.demand("shared", "k", 64, 500*time.Millisecond, cut.Add(5*undecidedWindow))
	t.Log(units)
	first := cut.Add(4 * time.Second).Truncate(undecidedWindow).Add(undecidedWindow)
	for n := range 2 {
		if got := units[first.Add(time.Duration(n)*undecidedWindow)]; got < 150 || got > 610 {
			t.Errorf("%d units in window %d of a grey failure, want at least half of the share of 300", got, n)
		}
	}
}
