package edge

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is a PoP of several workers and its region, in virtual time.
type world struct {
	t       tester
	now     lease.Millis
	store   *tabletest.Store
	region  *region
	workers []*Worker
	started uint64     // workers, dead ones included
	calls   []madeCall // made and not answered
	config  rulebook.Config
	decided []*Request // in the order of their verdicts
	// others are more replicas of the region; which one is asked, chance decides.
	others []*region
	chance uint32

	admittedHot int // by hot
}

// madeCall is a call on its way.
type madeCall struct {
	worker *Worker
	call   uplink.Call
	at     lease.Millis
}

const wallStart = limit.Micros(1_800_000_000) * limit.Second

func newWorld(t tester, workers int, rules string) *world {
	t.Helper()
	set := mustRules(t, rules)
	w := &world{t: t, now: 1_000_000, store: tabletest.New(), region: newRegion(t, set)}
	w.config = rulebook.Config{Rules: set, PagesLog2: 4, CallsInFlight: 4, RulesEvery: 5000, RegionCluster: "region", Hash: 1}
	for range workers {
		w.start()
	}
	w.collect()
	w.calls = nil // of the rules, which are bundled
	return w
}

func mustRules(t tester, text string) *rule.Set {
	t.Helper()
	set := fatal.Get(read.JSON([]byte(text)))(t)
	return set
}

func millis(d limit.Micros) lease.Millis { return lease.Millis(d / limit.Millisecond) }

func (w *world) wall() limit.Micros { return wallStart + limit.Micros(w.now)*limit.Millisecond }

// start adds a worker, or one in place of another that died.
func (w *world) start() *Worker {
	w.started++
	n := w.started
	x := New(w.config, w.store, [6]uint64{1, 2, 3, 4, 2 * n, n}, w.now, w.wall())
	w.workers = append(w.workers, x)
	return x
}

// request sends a request for a path by a user to a worker.
func (w *world) request(worker int, path, user string) *Request {
	r := &Request{Stream: uint32(len(w.decided))}
	w.send(worker, r, path, user)
	return r
}

func (w *world) send(worker int, r *Request, path, user string) Outcome {
	x := w.workers[worker]
	var in rule.Request
	in.Reset(x.Inputs())
	in.Add(x.Inputs(), ":path", path)
	in.Add(x.Inputs(), ":method", "GET")
	in.Add(x.Inputs(), "x-user", user)
	x.Match(&in)
	outcome := x.Decide(w.now, r)
	w.collect()
	return outcome
}

// collect takes what the workers want done.
func (w *world) collect() {
	for _, x := range w.workers {
		for _, c := range x.Calls {
			w.calls = append(w.calls, madeCall{x, c, w.now})
		}
		x.Calls = nil
		w.decided = append(w.decided, x.Decided...)
		x.Decided = nil
	}
}

// answer lets the region answer call i.
func (w *world) answer(i int) {
	f := w.take(i)
	f.worker.Reply(w.now, f.call.ID, w.replica().serve(w.now, f.call))
	w.collect()
}

// replica is the one that answers next.
func (w *world) replica() *region {
	w.chance = w.chance*1664525 + 1013904223
	if n := int(w.chance>>16) % (len(w.others) + 1); n > 0 {
		return w.others[n-1]
	}
	return w.region
}

// lose loses call i: applied is whether it reached the region.
func (w *world) lose(i int, applied bool) {
	f := w.take(i)
	if applied {
		w.region.serve(w.now, f.call)
	}
	f.worker.Failed(w.now, f.call.ID, uplink.CallTimedOut)
	w.collect()
}

func (w *world) take(i int) madeCall {
	f := w.calls[i]
	w.calls = append(w.calls[:i], w.calls[i+1:]...)
	return f
}

// settle answers all calls, and those that follow.
func (w *world) settle() {
	for range 1000 {
		if len(w.calls) == 0 {
			return
		}
		w.answer(0)
	}
	w.t.Fatal("the calls do not end")
}

// pass lets time pass, with ticks.
func (w *world) pass(d lease.Millis) {
	for end := w.now + d; w.now < end; {
		w.now += min(100, end-w.now)
		for _, x := range w.workers {
			x.Tick(w.now, w.wall())
		}
		w.collect()
	}
}

// millisecond lets one pass, with a tick every 100 of them, and answers the calls that are as old as trip.
func (w *world) millisecond(trip lease.Millis) {
	if w.now++; w.now%100 == 0 {
		for _, x := range w.workers {
			x.Tick(w.now, w.wall())
		}
		w.collect()
	}
	for i := 0; i < len(w.calls); {
		if w.now >= w.calls[i].at+trip {
			w.answer(i)
		} else {
			i++
		}
	}
}

// admittedOf counts those that are admitted.
func admittedOf(requests []*Request) (n int) {
	for _, r := range requests {
		if r.Outcome == Admit {
			n++
		}
	}
	return n
}

// admit sends a request and answers the calls it leads to.
func (w *world) admit(worker int, path, user string) bool {
	r := w.request(worker, path, user)
	w.settle()
	if r.Outcome == Wait {
		w.t.Fatalf("%s %s still waits", path, user)
	}
	return r.Outcome == Admit
}

// region is a granter as the protocol describes one, of counters in a map.
type region struct {
	t        tester
	set      *rule.Set
	revision uint64
	secret   *rule.Secret // nil: it has none
	spoilt   bool         // its rules are of a release that edges cannot read
	sent     int          // times that it sent its rules
	counters map[string]*granter.Counter
	slots    map[string]limit.Slots
	callers  map[uint64]*lease.Caller // by worker
	calls    int
	wants    int
	last     wire.Request
	share    uint32                        // of limits of scope global, in thousandths
	fails    func(*wire.Want) lease.Status // nil: it decides
	watch    uint32                        // watch_ms of its answers, but for those to reports
	shows    *quotapb.ReportResponse       // the answer to a report
	reports  []shown
}

// shown is a report, and when it came.
type shown struct {
	at lease.Millis
	*quotapb.ReportRequest
}

func newRegion(t tester, set *rule.Set) *region {
	return &region{t: t, set: set, counters: map[string]*granter.Counter{}, slots: map[string]limit.Slots{}, callers: map[uint64]*lease.Caller{}}
}

// serve answers a call; what breaks the protocol fails the test.
func (g *region) serve(now lease.Millis, c uplink.Call) []byte {
	if c.Path == uplink.RulesPath {
		return g.rules(c)
	}
	if c.Path == uplink.ReportPath {
		return g.report(now, c)
	}
	var q wire.Request
	if err := q.Decode(c.Body); err != nil {
		g.t.Fatalf("call: %v", err)
	}
	if q.Protocol != wire.Protocol || len(q.Holder) != 16 || q.Seq <= q.Ack {
		g.t.Fatalf("call: %+v", q)
	}
	if g.callers[q.Worker] == nil {
		g.callers[q.Worker] = new(lease.Caller)
	}
	if !g.callers[q.Worker].Accept(q.Seq) {
		g.t.Fatalf("call %d of worker %d came twice", q.Seq, q.Worker)
	}
	g.calls++
	g.wants += len(q.Wants)
	g.last = q
	wall := wallStart + limit.Micros(now)*limit.Millisecond
	a := wire.Response{Protocol: wire.Protocol, RulesVersion: g.version(), RulesRevision: g.revision, Holders: 1, SharePerMille: g.share, Seq: q.Seq, WatchMs: g.watch}
	if g.secret != nil {
		a.Secret = g.secret.Fingerprint()
	}
	denied := map[uint32]int{} // by group: how many of its wants do not fit
	for i := range q.Wants {
		if m := &q.Wants[i]; m.Group != 0 && !g.fits(wall, m) {
			denied[m.Group]++
		}
	}
	for i := range q.Wants {
		a.Grants = append(a.Grants, g.grant(wall, &q.Wants[i], denied[q.Wants[i].Group] > 0))
	}
	return a.Append(nil)
}

func (g *region) rules(c uplink.Call) []byte {
	var q quotapb.RulesRequest
	if err := proto.Unmarshal(c.Body, &q); err != nil {
		g.t.Fatalf("rules: %v", err)
	}
	a := quotapb.RulesResponse{Protocol: wire.Protocol, RulesVersion: g.version(), RulesRevision: g.revision, WatchMs: g.watch}
	if g.secret != nil && q.HaveSecret != g.secret.Fingerprint() {
		a.Secret = g.secret[:]
	}
	if q.HaveVersion != g.version() {
		g.sent++
		if a.Rules = g.set.Encode(); g.spoilt {
			a.Rules = []byte(`{"rules":[],"shape":"of things to come"}`)
		}
	}
	body, _ := proto.Marshal(&a)
	return body
}

// report takes a report; one that a region would refuse, or that comes too soon, fails the test.
func (g *region) report(now lease.Millis, c uplink.Call) []byte {
	r := shown{now, new(quotapb.ReportRequest)}
	if err := proto.Unmarshal(c.Body, r); err != nil || len(r.Members) != 1 {
		g.t.Fatalf("report: %v, %d members", err, len(r.Members))
	}
	if _, err := live.New(live.Config{}).Take("", r.ReportRequest); err != nil {
		g.t.Fatalf("report: %v", err)
	}
	for _, before := range g.reports {
		if before.Worker == r.Worker && now < before.at+1000 {
			g.t.Fatalf("reports of one worker at %d and at %d", before.at, now)
		}
	}
	g.reports = append(g.reports, r)
	answer, err := proto.Marshal(g.shows)
	if err != nil {
		g.t.Fatalf("report: %v", err)
	}
	return answer
}

func (g *region) version() string {
	if g.spoilt {
		return "spoilt"
	}
	return g.set.Version
}

// grant answers one want. The wants of a group are granted only if all could be:
// denied means that one could not.
func (g *region) grant(now limit.Micros, m *wire.Want, denied bool) wire.Grant {
	if g.fails != nil {
		return wire.Grant{Grant: lease.Grant{Status: g.fails(m)}}
	}
	l, terms, key, ok := g.counter(m)
	if !ok {
		return wire.Grant{Grant: lease.Grant{Status: lease.UnknownRule}}
	}
	if m.Need > m.Waiting || m.Waiting > m.Want.Want {
		g.t.Fatalf("want: need %d, waiting %d, want %d", m.Need, m.Waiting, m.Want.Want)
	}
	if l.Concurrent() {
		if denied && g.fits(now, m) {
			m.Need, m.Waiting, m.Want.Want = 0, 0, m.Holding
		}
		return g.hold(now, l, m, key)
	}
	c := g.counters[key]
	if c == nil {
		c = &granter.Counter{}
		g.counters[key] = c
	}
	want := m.For(l)
	if denied && g.fits(now, m) {
		c.Fit(l, &terms, now, want)
		left := l.Peek(c.State, now, 0).Remaining
		return wire.Grant{Grant: lease.Grant{Status: lease.OK, Limit: terms.Capacity, Remaining: left}}
	}
	return wire.Grant{Grant: c.Acquire(l, &terms, now, want), Shape: l.Fingerprint()}
}

func (g *region) counter(m *wire.Want) (*limit.Limit, lease.Terms, string, bool) {
	i, ok := g.set.Find(m.Rule)
	if !ok || g.set.Limit(i, int(m.Variant)) == nil || g.set.Override(i, int(m.Variant)) != m.Override {
		return nil, lease.Terms{}, "", false
	}
	r, l := g.set.Rule(i), g.set.Limit(i, int(m.Variant))
	terms := lease.NewTerms(l, r.Consistency, millis(r.LeaseInterval), millis(r.Timeout), r.Overdraft)
	return l, terms, fmt.Sprintf("%s/%x/%s", m.Rule, m.Override, m.Key), true
}

// fits reports whether the need of a want could be granted.
func (g *region) fits(now limit.Micros, m *wire.Want) bool {
	l, _, key, ok := g.counter(m)
	switch {
	case !ok:
		return true // unknown rules hold up nobody
	case l.Concurrent():
		free := l.Spec().Count
		for _, h := range g.slots[key].Held {
			if h.ID != m.Worker() && h.Until > now {
				free -= h.Units
			}
		}
		return m.Holding+m.Need <= free
	}
	var c granter.Counter
	if g.counters[key] != nil {
		c = *g.counters[key]
	}
	need := m.Need - m.Unused // which comes back first
	return need <= 0 || l.Peek(c.State, now, need).RetryAfter == 0
}

func (g *region) hold(now limit.Micros, l *limit.Limit, m *wire.Want, key string) wire.Grant {
	var d limit.HoldDecision
	g.slots[key], d = l.Hold(g.slots[key], now, m.Worker(), m.Holding+m.Need, max(m.Want.Want, m.Holding+m.Need))
	out := wire.Grant{Grant: lease.Grant{Status: lease.OK, Granted: d.Granted, TTL: millis(d.TTL), Limit: l.Spec().Count, Remaining: d.Remaining}}
	if d.Granted < m.Holding+m.Need {
		out.Status, out.AskAfter, out.RetryAfter = lease.Denied, 100, 1000
	}
	return out
}
