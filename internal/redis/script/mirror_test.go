package script_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var ctx = context.Background()

// keys makes each trace's key one that nobody has used.
var keys atomic.Int64

// TestMirror plays random traces on a counter in Go and on Redis: the grants are
// the same to the last unit, and so is whether a need fits.
func TestMirror(t *testing.T) {
	s := start(t)
	mirror := func(name string, a limit.Algorithm, zoned bool) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				compare(t, s, drawTrace(t, a, zoned))
			})
		})
	}
	for a := limit.TokenBucket; a <= limit.Concurrency; a++ {
		mirror(script.All()[a].Name, a, false)
	}
	mirror("calendars", limit.FixedWindow, true)
}

// TestMirrorForYears plays traces that never pause, so that the times in a value,
// which count from a base, outgrow their bytes unless the base moves on.
func TestMirrorForYears(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		spec  limit.Spec
		op    engine.Op
		step  limit.Micros
		steps int
	}{
		{limit.Spec{Algorithm: limit.SlidingLog, Count: 5, Period: limit.MaxPeriod}, 0, 50 * limit.Day, 200},
		{limit.Spec{Algorithm: limit.SlidingLog, Count: 500, Period: limit.MaxPeriod, ChargeRejected: true}, 0, 20*limit.Day + 1, 400},
		{limit.Spec{Algorithm: limit.SlidingLog, Count: 2, Period: limit.MaxPeriod}, 0, 300 * limit.Day, 30},
		{limit.Spec{Algorithm: limit.Concurrency, Count: 3, LeaseTTL: limit.Day}, engine.Take, 5*limit.Hour + 1, 300},
		{limit.Spec{Algorithm: limit.Concurrency, Count: 9, LeaseTTL: limit.Day}, engine.Hold, 5*limit.Hour + 1, 300},
	} {
		p, key := policy(c.spec, lease.Leased, 100), newKey()
		var played trace
		now := 1_700_000_000 * limit.Second
		for i := range uint64(c.steps) {
			played.add(now, engine.Ask{Policy: p, Key: key, Op: c.op, Holder: i%5 + 1, Seq: i, Want: lease.Want{Need: 1, Waiting: 1, Want: 1 + int64(i%3)}})
			now += c.step
		}
		compare(t, s, played)
	}
}

// TestMirrorOfACrowd: slots of a key are named for so many requests at most. One more is rejected, though
// slots are free, until the first one ends or runs out. Who holds slots keeps them, and a PoP still gets some.
func TestMirrorOfACrowd(t *testing.T) {
	s := start(t)
	p, key := policy(limit.Spec{Algorithm: limit.Concurrency, Count: 5000}, lease.Leased, 100), newKey()
	var played trace
	now := 1_700_000_000 * limit.Second
	ask := func(op engine.Op, id uint64, cost int64) lease.Grant {
		now++
		return played.add(now, engine.Ask{Policy: p, Key: key, Op: op, Holder: id, Want: lease.Want{Need: cost, Waiting: cost, Want: cost}})
	}
	const most = limit.MaxHoldings
	for i := range uint64(most) {
		if g := ask(engine.Take, i+1, 1); g.Status != lease.OK {
			t.Fatalf("request %d: %+v", i, g)
		}
	}
	for i, step := range []struct {
		op   engine.Op
		id   uint64
		cost int64
		want lease.Status
	}{
		{engine.Take, most + 1, 1, lease.Denied}, {engine.Take, 7, 3, lease.OK}, {engine.Renew, 8, 0, lease.OK}, {engine.Hold, most + 2, 1, lease.OK},
		{engine.Release, 9, 0, lease.OK}, {engine.Take, most + 3, 1, lease.Denied}, {engine.Release, 10, 0, lease.OK}, {engine.Take, most + 4, 1, lease.OK},
		{engine.Take, most + 5, 5001, lease.Denied},
	} {
		g := ask(step.op, step.id, step.cost)
		if g.Status != step.want || g.Status == lease.Denied && (g.RetryAfter <= 0 || step.cost == 1 && (g.RetryAfter > 10_000 || g.Remaining < 3000)) {
			t.Fatalf("step %d: %+v", i, g)
		}
	}
	compare(t, s, played)
}

// TestMirrorOfAPauseThatIsOver: a clock that steps back does not begin the least
// interval between two requests again, not even for a unit that is withheld.
func TestMirrorOfAPauseThatIsOver(t *testing.T) {
	s := start(t)
	p := policy(limit.Spec{Algorithm: limit.SlidingLog, Count: 1000, Period: limit.Millisecond, MinInterval: 4}, lease.Leased, 100)
	key := newKey()
	var played trace
	played.add(1_700_000_000*limit.Second, engine.Ask{Policy: p, Key: key, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}})
	played.add(1_700_000_000*limit.Second+5, engine.Ask{Policy: p, Key: key})
	if g := played.add(1_700_000_000*limit.Second+3, engine.Ask{Policy: p, Key: key, Want: lease.Want{Want: 8, Withheld: 1000}}); g.RetryAfter != 0 {
		t.Fatalf("withheld behind a pause that is over: %+v, want no RetryAfter", g)
	}
	compare(t, s, played)
}

// trace is calls for one key, and what the twin answers to them.
type trace struct {
	calls []call
	want  []outcome
	twin  twin
}

// add adds an ask that makes the key.
func (tr *trace) add(now limit.Micros, a engine.Ask) lease.Grant {
	c := call{ask: a, now: now}
	g, fits := tr.twin.apply(&c)
	tr.calls, tr.want = append(tr.calls, c), append(tr.want, outcome{grant: g, fits: fits, made: true})
	return g
}

// outcome is what the twin answers to a call.
type outcome struct {
	grant lease.Grant
	fits  bool
	made  bool         // the key exists
	keep  limit.Micros // for which it has to at least; 0: it is not known
}

func compare(t rapid.TB, s *server, played trace) {
	t.Helper()
	calls := played.calls
	for i, got := range s.play(t, calls) {
		w := played.want[i]
		if got.grant != w.grant || got.fits != w.fits {
			t.Fatalf("call %d of %d: %s\n got %+v, fits %v\nwant %+v, fits %v", i, len(calls), describe(&calls[i]), got.grant, got.fits, w.grant, w.fits)
		}
		if exists := got.ttl != -2; exists != w.made || got.ttl == -1 {
			t.Fatalf("call %d of %d: %s\nttl of the key %d ms, counter made: %v", i, len(calls), describe(&calls[i]), got.ttl, w.made)
		}
		if w.made && got.ttl < int64(w.keep/limit.Millisecond) {
			t.Fatalf("call %d of %d: %s\nttl of the key %d ms, needed for %d µs", i, len(calls), describe(&calls[i]), got.ttl, w.keep)
		}
	}
}

func describe(c *call) string {
	return fmt.Sprintf("at %d, mode %d, %+v of %+v, op %d, holder %x, seq %d, holding %d", c.now, c.mode, c.ask.Want,
		c.ask.Policy.Limit.Spec(), c.ask.Op, c.ask.Holder, c.ask.Seq, c.ask.Want.Holding)
}

// drawTrace makes a trace and what the twin in Go answers to it. zoned: its windows are those of a calendar.
func drawTrace(t *rapid.T, a limit.Algorithm, zoned bool) (drawn trace) {
	d := drawer{t: t, key: newKey(), now: 1_700_000_000 * limit.Second}
	d.spec = d.drawSpec(a, zoned)
	for d.policy = nil; d.policy == nil; {
		d.changeCount()
	}
	for range d.drawCrowd() {
		d.now += d.spec.Period / 1000
		d.seq++
		single := engine.Ask{Policy: d.policy, Key: d.key, Op: engine.Take, Holder: d.seq << 20, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
		d.add(&drawn, call{ask: single, now: d.now})
	}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		if d.oneIn(12, "change") {
			d.changeCount()
		}
		d.now = max(1, d.now+d.after())
		c := call{ask: d.ask(), now: d.now, mode: script.Mode(rapid.IntRange(0, 1).Draw(t, "mode"))}
		if c.ask.Op != engine.Hold {
			c.mode = script.Acquire // requests have no group
		}
		if d.oneIn(10, "operates") {
			c.mode = rapid.SampledFrom([]script.Mode{script.Look, script.Look, script.Reset}).Draw(t, "as an operator")
			c.ask = engine.Ask{Policy: d.policy, Key: d.key, Op: engine.Look + engine.Op(c.mode-script.Look)}
		}
		d.add(&drawn, c)
	}
	return drawn
}

// add adds a call, and what the twin answers. How long the key is needed is only known while
// the clock has not stepped back: Redis counts on without it.
func (d *drawer) add(to *trace, c call) {
	g, fits := to.twin.apply(&c)
	if g.Granted > 0 && !c.ask.Op.Operates() {
		d.leases = append(d.leases, g.Lease)
	}
	d.holding[c.ask.Holder] = g.Granted
	o := outcome{grant: g, fits: fits, made: to.twin.made}
	if d.latest = max(d.latest, c.now); c.now == d.latest {
		o.keep = to.twin.keep(c.ask.Policy.Limit, c.now)
	}
	to.calls, to.want = append(to.calls, c), append(to.want, o)
}

// drawCrowd is how many single units are asked for before the trace, a thousandth
// of a period apart: what is kept of each makes the value long.
func (d *drawer) drawCrowd() int {
	if a := d.spec.Algorithm; a < limit.SlidingLog || d.oneIn(2, "nobody was there") {
		return 0
	}
	return rapid.IntRange(0, 400).Draw(d.t, "crowd")
}

// drawer draws a trace step by step, since what is given back was granted before.
type drawer struct {
	t       *rapid.T
	key     []byte
	now     limit.Micros
	latest  limit.Micros
	spec    limit.Spec
	policy  *engine.Policy
	leases  []uint32
	seq     uint64
	holding map[uint64]int64
}

func (d *drawer) oneIn(n int, label string) bool { return rapid.IntRange(1, n).Draw(d.t, label) == 1 }

func (d *drawer) units(most int64, label string) int64 {
	if d.oneIn(8, label+" is 0") {
		return 0
	}
	if d.oneIn(10, label+" is large") {
		return rapid.Int64Range(0, limit.MaxCount).Draw(d.t, label)
	}
	return rapid.Int64Range(0, max(1, most)).Draw(d.t, label)
}

// drawSpec draws what a counter keeps through a change of its rule.
func (d *drawer) drawSpec(a limit.Algorithm, zoned bool) limit.Spec {
	d.holding = map[uint64]int64{}
	s := limit.Spec{Algorithm: a}
	if a != limit.Concurrency {
		s.Period = rapid.SampledFrom([]limit.Micros{limit.Millisecond, 10 * limit.Millisecond, limit.Second, 7 * limit.Second, limit.Minute, limit.Hour, limit.Day, limit.MaxPeriod}).Draw(d.t, "period")
	}
	switch {
	case zoned:
		s.Calendar = rapid.SampledFrom(calendars(d.t)).Draw(d.t, "calendar")
		s.Period = s.Calendar.Per.Period()
	case a == limit.FixedWindow && d.oneIn(2, "align"):
		s.Align = limit.AlignFirstRequest
	}
	return s
}

// calendars are some with windows of every length.
func calendars(t rapid.TB) (all []*limit.Calendar) {
	for _, c := range []limit.Calendar{
		{Per: limit.PerDay, Zone: "Europe/Berlin"}, {Per: limit.PerDay, Zone: "Pacific/Apia"}, {Per: limit.PerWeek, Anchor: 7, Zone: "America/New_York"},
		{Per: limit.PerMonth, Anchor: 1, Zone: "UTC"}, {Per: limit.PerMonth, Anchor: 31, Zone: "Australia/Lord_Howe"},
	} {
		c.Windows = fatal.Get(calendar.Windows(c))(t)
		all = append(all, &c)
	}
	return all
}

// changeCount draws what a new version of a rule may change.
func (d *drawer) changeCount() {
	s := d.spec
	s.Count = rapid.SampledFrom([]int64{0, 1, 2, 3, 5, 10, 100, 1000, 86_400, 999_983, 1_000_000, 3_000_000, limit.MaxCount}).Draw(d.t, "count")
	s.LeaseTTL = rapid.SampledFrom([]limit.Micros{0, limit.Millisecond, limit.Second + 1, limit.Day}).Draw(d.t, "ttl")
	switch s.Algorithm {
	case limit.TokenBucket:
		if s.Count > 0 {
			s.Burst = rapid.SampledFrom([]int64{0, 1, 3, 50, 5000, 1_000_000}).Draw(d.t, "burst")
		}
	case limit.SlidingLog:
		if d.oneIn(3, "spaced") {
			s.MinInterval = rapid.Custom(func(t *rapid.T) limit.Micros {
				return limit.Micros(rapid.Int64Range(0, int64(s.Period)).Draw(t, "interval"))
			}).Draw(d.t, "min interval")
		}
	}
	if s.Algorithm != limit.Concurrency {
		s.ChargeRejected = rapid.Bool().Draw(d.t, "charge denied")
	}
	consistency := lease.Consistency(rapid.IntRange(0, 2).Draw(d.t, "consistency"))
	if s.Algorithm != limit.Concurrency && s.MinInterval == 0 && d.oneIn(2, "blocks") {
		s.Block = rapid.SampledFrom([]limit.Micros{limit.Millisecond, limit.Second, limit.Minute, limit.MaxBlock}).Draw(d.t, "block")
		s.Reserves = s.Algorithm != limit.SlidingLog && rapid.Bool().Draw(d.t, "reserves")
		s.Kept = d.units(s.Count/4, "kept")
		consistency = lease.Exact
	}
	interval := lease.Millis(rapid.SampledFrom([]int{10, 100, 1000}).Draw(d.t, "lease interval"))
	if p := policy(s, consistency, interval); p != nil {
		d.policy = p
	}
}

// after is how far the clock steps: often not at all, mostly a little, now and then by about a period, or back.
func (d *drawer) after() limit.Micros {
	period := int64(max(d.spec.Period, 10*limit.Second))
	if d.spec.Period > 0 {
		period = int64(d.spec.Period)
	}
	span := func(from, to int64) limit.Micros { return limit.Micros(rapid.Int64Range(from, to).Draw(d.t, "after")) }
	move := rapid.IntRange(0, 12).Draw(d.t, "clock")
	if c := d.spec.Calendar; c != nil && move > 6 { // to about the begin of a window near now
		return c.Windows.Around(d.now)[rapid.IntRange(0, 5).Draw(d.t, "window")] - d.now + span(-2, 2) - max(0, span(-1, int64(400*limit.Millisecond)))
	}
	switch move {
	case 12: // to shortly before the next window begins
		return limit.Micros(period) - d.now%limit.Micros(period) - span(1, min(period, int64(400*limit.Millisecond)))
	case 0, 1:
		return 0
	case 2, 3:
		return span(0, 1000)
	case 4, 5, 6:
		return span(0, period/10)
	case 7:
		return span(0, period)
	case 8:
		return limit.Micros(period) + span(-2, 2)
	case 9:
		return span(0, 5*period)
	case 10:
		return -span(0, period)
	}
	return rapid.SampledFrom([]limit.Micros{-3 * limit.Micros(period), -limit.Micros(period) - 1, -limit.Day, 30 * limit.Day, 10 * 366 * limit.Day, limit.Minute, -limit.Minute}).Draw(d.t, "jump")
}

func (d *drawer) ask() engine.Ask {
	a := engine.Ask{Policy: d.policy, Key: d.key}
	if d.spec.Algorithm == limit.Concurrency {
		d.askSlots(&a)
		return a
	}
	w := &a.Want
	w.Fresh = rapid.Bool().Draw(d.t, "fresh")
	w.Next = rapid.Bool().Draw(d.t, "next")
	most := d.policy.Terms.Capacity
	if d.oneIn(4, "withholds") {
		w.Withheld = d.units(most/2, "withheld")
	}
	if !d.oneIn(6, "report") {
		if !d.oneIn(3, "nobody waits") {
			w.Need = d.units(most/3, "need")
		}
		w.Waiting = min(limit.MaxCount, w.Need+d.units(most/8, "more waiting"))
		w.Want = min(limit.MaxCount, w.Waiting+d.units(most/2, "more wanted"))
		if d.oneIn(4, "soon more") {
			w.Soon = min(d.units(most/4, "soon"), w.Want-w.Waiting)
		}
	}
	if d.oneIn(3, "gives back") && len(d.leases) > 0 {
		w.Unused = d.units(most/2, "unused")
		w.Lease = d.leases[len(d.leases)-1-rapid.IntRange(0, min(4, len(d.leases)-1)).Draw(d.t, "which lease")]
	}
	if d.oneIn(4, "counts") && len(d.leases) > 0 {
		w.Settled, w.Lease = d.units(most/2, "settled"), d.leases[len(d.leases)-1]
	}
	if d.oneIn(6, "overdraws") {
		w.Overdrawn = d.units(most/2, "overdrawn")
	}
	if d.oneIn(6, "rejected") {
		w.Denied = d.units(most/4, "denied")
	}
	return a
}

// ids are such that one occurs across the border of two others.
var ids = []uint64{1, 2, 3, 0x0101010101010101, 0x0101010101010102, 0x0001000000000000, 0xffffffffffffffff, 1 << 63}

func (d *drawer) askSlots(a *engine.Ask) {
	a.Op = rapid.SampledFrom([]engine.Op{engine.Hold, engine.Hold, engine.Hold, engine.Take, engine.Take, engine.Renew, engine.Release}).Draw(d.t, "op")
	a.Holder = rapid.SampledFrom(ids).Draw(d.t, "holder")
	most := d.policy.Terms.Capacity
	a.Want.Need = d.units(most/4, "need")
	if a.Op != engine.Hold {
		return
	}
	d.seq++
	if a.Seq = d.seq; d.oneIn(5, "late") {
		a.Seq -= min(a.Seq, uint64(rapid.IntRange(1, 6).Draw(d.t, "by")))
	}
	a.Want.Holding = min(d.holding[a.Holder], d.units(most/3, "holding"))
	if d.oneIn(10, "claims") {
		a.Want.Holding = d.units(most/3, "claim")
	}
	a.Want.Waiting = min(limit.MaxCount, a.Want.Need+d.units(most/6, "more waiting"))
	a.Want.Want = min(limit.MaxCount, a.Want.Holding+a.Want.Waiting+d.units(most/3, "more wanted"))
}

func policy(spec limit.Spec, c lease.Consistency, interval lease.Millis) *engine.Policy {
	l, err := limit.New(spec)
	if err != nil {
		return nil
	}
	return engine.NewPolicy("r", 0, l, lease.NewTerms(l, c, interval, 0, 0))
}

func newKey() []byte { return strconv.AppendInt([]byte("key-"), keys.Add(1), 10) }
