package sim

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// tokens is a run in which streams of one key use tokens at all PoPs, of which there are four in a region.
type tokens struct {
	fields   string // of the rule, but for its cost
	more     string // rules
	regions  int
	declares int64 // what requests reserve
	loss     float64
	faults   bool // PoPs restart, and links are cut
}

// mostUsed is the most that a stream uses; on average it is half of that.
const mostUsed = 200

// TestCostOfResponses: what streams use that declare at most what they use never exceeds the limit, and without loss it is at
// least 95 % of what one exact limiter admits with the same reservations. Settlement makes at most one call a second for each PoP.
func TestCostOfResponses(t *testing.T) {
	for _, s := range []tokens{
		{"limit: 40000/10m, scope: pop, algorithm: fixed_window", "", 0, mostUsed, 0, false},
		{"limit: 40000/10m", "", 1, mostUsed, 0, false},
		{"limit: 400000/10m, algorithm: fixed_window", "", 1, mostUsed, 0, false},
		{"limit: 400000/10m, scope: global", "", 3, mostUsed, 0, false},
		{"limit: 400000/10m, algorithm: fixed_window", "", 1, mostUsed, 0.1, false},
		{"limit: 400000/10m, scope: global", "", 3, mostUsed, 0.01, true},
	} {
		t.Run(fmt.Sprint(s.fields, " loss ", s.loss, " faults ", s.faults), func(t *testing.T) {
			used, one, calls := s.play(t, true)
			count := one.limit.Spec().Count
			part := float64(used) / float64(one.used)
			t.Logf("%d used of two limits of %d, %.1f %% of what one exact limiter admits", used, count, 100*part)
			if used > 2*count || s.loss == 0 && part < 0.95 {
				t.Error("want at most two limits, and 95 % without loss")
			}
			_, _, without := s.play(t, false)
			more := float64(calls-without) / float64(s.pops()) / seconds(2*settleWindow)
			if t.Logf("%d calls, and %d without settlement: %.2f more a second for each PoP", calls, without, more); more > 1 {
				t.Error("want at most one more a second for each PoP")
			}
		})
	}
}

// TestClientsThatDeclareLess: a client that declares one unit and uses more exceeds its limit by what its streams in flight use, at
// most. A concurrency rule beside it bounds these.
func TestClientsThatDeclareLess(t *testing.T) {
	for _, fields := range []string{"limit: 5000/10m, algorithm: fixed_window", "limit: 5000/10m, consistency: exact", "limit: 5000/10m, scope: global"} {
		s := tokens{fields, ", { name: streams, key: [], limit: 5, algorithm: concurrency, on_failure: deny }", 1, 1, 0, false}
		used, one, _ := s.play(t, true)
		count := one.limit.Spec().Count
		if most := 2 * (count + 5*(mostUsed-1)); used <= 2*count || used > most {
			t.Errorf("%s: %d used of two limits of %d, want more, and at most %d with five streams in flight", fields, used, count, most)
		}
	}
}

func (s tokens) pops() int { return max(1, 4*s.regions) }

// play offers three times the limit in streams of up to 30 s, for two windows.
func (s tokens) play(t *testing.T, settles bool) (used int64, one *reserving, calls int) {
	cost := fmt.Sprintf("{ estimate: { header: x-cost, max: %d }, actual: { header: x-used }, max: %d }", mostUsed, mostUsed)
	if !settles {
		cost = fmt.Sprintf("{ header: x-cost, max: %d }", mostUsed)
	}
	seen := new(observed)
	c := settling(t, "{ name: tokens, key: [], on_failure: deny, cost: "+cost+", "+s.fields+" }"+s.more, s.pops(), s.regions, s.loss)
	c.Observer = seen
	i, _ := c.Rules.Find("tokens")
	of := c.Rules.Limit(i, 0)
	every := settleWindow * mostUsed / limit.Micros(6*of.Spec().Count)
	one = &reserving{limit: of, states: map[int]limit.State{}}
	fatal.If(t, world.Play(c, func(w *world.World) error {
		if s.faults {
			breakdowns(w)
		}
		for at := 5 * limit.Second; at < 2*settleWindow-limit.Minute; at += every {
			if in := at % settleWindow; in < limit.Second || in > settleWindow-limit.Second {
				continue // requests that wait across the end of a window
			}
			lasts, pop, units := limit.Micros(w.Rand.Int64N(int64(30*limit.Second)))+1, w.Rand.IntN(s.pops()), w.Rand.Int64N(mostUsed)+1
			declared := min(s.declares, 2*units) // twice what it uses
			actual := func(*settle.Actual) (string, bool) { return strconv.FormatInt(units, 10), true }
			client{pop: pop, header: "x-cost", value: strconv.FormatInt(declared, 10), lasts: lasts, response: settle.Response{Status: 200, Cost: actual},
				decided: func(r *world.Request) {
					if r.Edge.Outcome == edge.Admit {
						used += units
					}
				}}.asks(w, at)
			w.After(at, func() { one.request(c.Start+at, 0, lasts, declared, units) })
		}
		w.Run(2 * settleWindow)
		return nil
	}))
	return used, one, seen.calls
}

// breakdowns restarts a PoP each minute, and cuts a PoP and a replica of a region off for two minutes each.
func breakdowns(w *world.World) {
	for i := range limit.Micros(18) {
		w.After((i+1)*limit.Minute, w.PoPs[int(i)%len(w.PoPs)].Restart)
	}
	isolate(w, 2*limit.Minute, w.PoPs[0].Link)
	isolate(w, 5*limit.Minute, w.Replicas[0].Link)
}

// isolate cuts a link for two minutes.
func isolate(w *world.World, at limit.Micros, l *world.Link) {
	w.After(at, func() { l.Cut, l.Deaf = true, true })
	w.After(at+2*limit.Minute, func() { l.Cut, l.Deaf = false, false })
}

// observed counts the calls of PoPs.
type observed struct {
	unobserved
	calls int
}

func (o *observed) Passes(call *world.Call, stage world.Stage) {
	if call.Flight != nil && stage == world.Made {
		o.calls++
	}
}
