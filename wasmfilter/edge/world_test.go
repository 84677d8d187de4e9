package edge

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// world is a PoP of several workers and its region, in virtual time.
type world struct {
	t       rapid.TB
	now     lease.Millis
	store   *tabletest.Store
	region  *region
	workers []*Worker
	started uint64     // workers, dead ones included
	calls   []madeCall // made and not answered
	config  rulebook.Config
	decided []*Request // in the order of their verdicts
}

// madeCall is a call on its way.
type madeCall struct {
	worker *Worker
	call   uplink.Call
	at     lease.Millis
}

const wallStart = limit.Micros(1_800_000_000) * limit.Second

func newWorld(t rapid.TB, workers int, rules string) *world {
	t.Helper()
	set := mustRules(t, rules)
	w := &world{t: t, now: 1_000_000, store: tabletest.New(), region: newRegion(t, set)}
	w.config = rulebook.Config{Rules: set, PagesLog2: 4, RulesEvery: 5000, RegionCluster: "region", Hash: 1}
	return w.starts(workers)
}

// starts adds workers. Their calls for the rules, which are bundled, are dropped.
func (w *world) starts(workers int) *world {
	for range workers {
		w.start()
	}
	w.collect()
	w.calls = nil
	return w
}

func mustRules(t rapid.TB, text string) *rule.Set {
	t.Helper()
	return fatal.Get(read.JSON([]byte(text)))(t)
}

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
	return w.sends(worker, r, ":path", path, ":method", "GET", "x-user", user)
}

// sends sends a request with headers, each a name and a value.
func (w *world) sends(worker int, r *Request, headers ...string) Outcome {
	x := w.workers[worker]
	var in rule.Request
	in.Reset(x.Inputs())
	for i := 0; i < len(headers); i += 2 {
		in.Add(x.Inputs(), headers[i], headers[i+1])
	}
	if x.Match(&in) {
		x.Decide(w.now, r)
	}
	w.collect()
	return r.Outcome
}

// collect takes what the workers want done. Reports are answered at once while nobody watches.
func (w *world) collect() {
	for _, x := range w.workers {
		made := x.Calls
		x.Calls = nil
		for _, c := range made {
			if c.Path == uplink.ReportPath && w.region.shows == nil {
				if w.region.lost {
					x.Failed(w.now, c.ID, uplink.CallTimedOut)
				} else {
					x.Reply(w.now, c.ID, w.region.serve(w.wall(), c))
				}
				continue
			}
			w.calls = append(w.calls, madeCall{x, c, w.now})
		}
		w.decided = append(w.decided, x.Decided...)
		x.Decided = nil
	}
}

// answer lets the region answer call i.
func (w *world) answer(i int) {
	f := w.take(i)
	w.reply(f, w.region.serve(w.wall(), f.call))
}

// reply is the answer to a call; nil: it fails.
func (w *world) reply(f madeCall, body []byte) {
	if body != nil {
		f.worker.Reply(w.now, f.call.ID, body)
	} else {
		f.worker.Failed(w.now, f.call.ID, uplink.CallFailed)
	}
	w.collect()
}

// answerAs answers call i with what the region answers, edited.
func (w *world) answerAs(i int, edit func(*wire.Response)) {
	f := w.take(i)
	var m wire.Response
	fatal.If(w.t, m.Decode(w.region.serve(w.wall(), f.call)))
	edit(&m)
	w.reply(f, m.Append(nil))
}

// lose loses call i: applied is whether it reached the region.
func (w *world) lose(i int, applied bool) {
	f := w.take(i)
	if applied {
		w.region.serve(w.wall(), f.call)
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
func (w *world) settle() { w.each(w.answer) }

// cut has all calls time out, and those that follow: applied is whether they reached the region.
func (w *world) cut(applied bool) { w.each(func(i int) { w.lose(i, applied) }) }

// each does with the first call, until there is none, what ends it.
func (w *world) each(end func(i int)) {
	for range 1000 {
		if len(w.calls) == 0 {
			return
		}
		end(0)
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

// change has the region put other rules in force, which the workers fetch.
func (w *world) change(rules string, revision uint64) {
	w.region.use(mustRules(w.t, rules).Dated(revision))
	w.pass(6000)
	w.settle()
}

// millisecond lets one pass, with a tick every 100 of them, and answers the calls that are as old as trip.
func (w *world) millisecond(trip lease.Millis) {
	if w.now++; w.now%100 == 0 {
		for _, x := range w.workers {
			x.Tick(w.now, w.wall())
		}
		w.collect()
	}
	w.answerThose(func(c madeCall) bool { return w.now >= c.at+trip })
}

// answerThose lets the region answer the calls of which this is true.
func (w *world) answerThose(is func(madeCall) bool) {
	for i := 0; i < len(w.calls); {
		if is(w.calls[i]) {
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

// charged is how many units of the keys of a rule the region has charged.
func (w *world) charged(rule string) (units int64) {
	for name := range w.region.keys {
		if of, key, _ := strings.Cut(name, "/"); of == rule {
			units += w.region.spent(w.wall(), rule, key)
		}
	}
	return units
}

// answered sends a request and answers the calls that it leads to.
func (w *world) answered(worker int, path, user string) *Request {
	r := w.request(worker, path, user)
	w.settle()
	return r
}

// admit reports whether a request is admitted, after the calls that it leads to.
func (w *world) admit(worker int, path, user string) bool {
	r := w.answered(worker, path, user)
	if r.Outcome == Wait {
		w.t.Fatalf("%s %s still waits", path, user)
	}
	return r.Outcome == Admit
}
