package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// settlement is a run in which the clients of one key make requests to all PoPs, of which a part fails.
type settlement struct {
	fields  string // of the rule
	regions int    // two PoPs each
	loss    float64
	least   float64 // part of what one exact limiter admits
}

// TestSettlement: of a rule that counts failures no more than the limit is counted in any window, whatever is lost. Where
// nothing is lost, at least 95 % is admitted of what one exact limiter admits of the same requests, of which each takes a unit
// until its response comes.
func TestSettlement(t *testing.T) {
	for _, s := range []settlement{
		{`limit: 20/10m, scope: pop, algorithm: fixed_window`, 0, 0, 0.95},
		{`limit: 20/10m, algorithm: fixed_window`, 1, 0, 0.95},
		{`limit: 20/10m`, 1, 0, 0.95},
		{`limit: 400/10m, algorithm: fixed_window`, 1, 0, 0.95},
		{`limit: 400/10m`, 1, 0, 0.95},
		{`limit: 400/10m, consistency: exact, algorithm: fixed_window`, 3, 0, 0.95},
		{`limit: 100/10m, scope: global`, 3, 0, 0.95},
		{`limit: 900/10m, scope: global`, 3, 0, 0.95},
		{`limit: 20/10m, algorithm: fixed_window`, 1, 0.1, 0},
		{`limit: 400/10m, algorithm: fixed_window`, 1, 0.1, 0},
		{`limit: 400/10m`, 1, 0.1, 0},
		{`limit: 900/10m, scope: global`, 3, 0.1, 0},
	} {
		t.Run(fmt.Sprint(s.fields, " loss ", s.loss), func(t *testing.T) { s.play(t) })
	}
}

const settleWindow = 10 * limit.Minute

// play offers six times the limit, of which half fails after up to 30 s, over the end of a window.
func (s settlement) play(t *testing.T) {
	pops := max(1, 2*s.regions)
	c := settling(t, "{ name: failures, key: [], on_failure: deny, count: { status: [401] }, "+s.fields+" }", pops, s.regions, s.loss)
	of := c.Rules.Limit(0, 0)
	every := settleWindow / limit.Micros(6*of.Spec().Count)
	counted, admitted := map[limit.Micros]int64{}, int64(0)
	one := &reserving{limit: of, states: map[int]limit.State{}}
	fatal.If(t, world.Play(c, func(w *world.World) error {
		for at := 5 * limit.Second; at < 2*settleWindow-limit.Minute; at += every {
			if in := at % settleWindow; in < limit.Second || in > settleWindow-limit.Second {
				continue // requests that wait across the end of a window
			}
			lasts, pop := limit.Micros(w.Rand.Int64N(int64(30*limit.Second)))+1, w.Rand.IntN(pops)
			status := 200 + 201*w.Rand.IntN(2)
			window := at / settleWindow
			client{pop: pop, lasts: lasts, response: settle.Response{Status: status}, decided: func(r *world.Request) {
				if r.Edge.Outcome == edge.Admit {
					admitted++
					counted[window] += int64(status / 401)
				}
			}}.asks(w, at)
			w.After(at, func() { one.request(c.Start+at, pop%s.places(), lasts, 1, int64(status/401)) })
		}
		w.Run(2 * settleWindow)
		return nil
	}))
	for window, n := range counted {
		if n > of.Spec().Count*int64(s.places()) {
			t.Errorf("window %d: %d responses counted", window, n)
		}
	}
	part := float64(admitted) / float64(one.admitted)
	if t.Logf("%d admitted, %.1f %% of one exact limiter; counted %v", admitted, 100*part, counted); part < s.least {
		t.Errorf("want %.0f %% of one exact limiter", 100*s.least)
	}
}

// settling is the configuration of a run by these rules, with PoPs that are divided among regions. So many of the calls and of
// the replies are lost, and a tenth of that on the way to the aggregator.
func settling(t *testing.T, rules string, pops, regions int, loss float64) world.Config {
	t.Helper()
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte("rules: ["+rules+"]\n")))(t)
	c := world.Config{
		Seed: 1, Rules: set.Dated(1), Start: 20_000 * limit.Day, Workers: 2, PagesLog2: 6, Depth: 1, Observer: unobserved{},
		Net:           world.Net{Delay: limit.Millisecond / 2, LoseCall: loss, LoseReply: loss},
		AggregatorNet: world.Net{Delay: 30 * limit.Millisecond, LoseCall: loss / 10, LoseReply: loss / 10},
	}
	for i := range pops {
		region := fmt.Sprint("r", i%max(1, regions))
		if c.PoPs = append(c.PoPs, world.PoPConfig{Name: fmt.Sprint("p", i), Region: region}); i < regions && regions > 1 {
			c.Regions = append(c.Regions, region)
		}
	}
	return c
}

// client makes a request to a PoP, with one header, and gets a response of the upstream.
type client struct {
	pop           int
	header, value string
	lasts         limit.Micros
	response      settle.Response
	decided       func(*world.Request)
}

func (c client) asks(w *world.World, at limit.Micros) {
	c.response.Upstream, c.response.GRPCStatus = true, settle.NoGRPCStatus
	w.After(at, func() {
		w.PoPs[c.pop].Request(&world.Request{
			Fill: func(in *rule.Inputs, q *rule.Request) {
				q.Reset(in)
				q.Add(in, c.header, c.value)
			},
			Lasts: c.lasts, Response: c.response, Decided: c.decided,
		})
	})
}

// places is how many counters the key has. A PoP uses the one with its number, modulo places.
func (s settlement) places() int {
	if strings.Contains(s.fields, "scope: global") {
		return 1
	}
	return max(1, s.regions)
}

// reserving is one exact limiter per place, in which each request takes units until its response comes.
type reserving struct {
	limit    *limit.Limit
	states   map[int]limit.State
	open     []reserved
	admitted int64
	used     int64 // by what was admitted
}

type reserved struct {
	ends, period limit.Micros
	place        int
	back         int64
}

// request decides a request that takes units and has used so many of them in the end. None is earlier than the one before.
func (l *reserving) request(now limit.Micros, place int, lasts limit.Micros, units, used int64) {
	still := l.open[:0]
	for _, r := range l.open {
		if r.ends > now {
			still = append(still, r)
			continue
		}
		l.states[r.place], _ = l.limit.Return(l.states[r.place], now, r.period, r.back)
	}
	l.open = still
	state, did := l.limit.Acquire(l.states[place], now, limit.Ask{Need: units, Waiting: units, Want: units})
	if l.states[place] = state; did.Granted == 0 {
		return
	}
	l.admitted++
	l.used += used
	if used < units {
		l.open = append(l.open, reserved{now + lasts, did.Period, place, units - used})
	}
}

// unobserved is a world that nobody looks at.
type unobserved struct{}

func (unobserved) Begins(*world.World)                                              {}
func (unobserved) Passes(*world.Call, world.Stage)                                  {}
func (unobserved) Happened(*world.PoP)                                              {}
func (unobserved) Wraps(s engine.Store, _ world.Border, _ *world.Life) engine.Store { return s }
func (unobserved) Cell(_ *world.Region, c engine.Cell) engine.Cell                  { return c }
