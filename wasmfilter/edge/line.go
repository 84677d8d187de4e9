package edge

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Call is a call to be made: POST Path with Body, as application/proto.
type Call struct {
	ID          uint64 // names it in Reply and Failed
	Path        string
	Body        []byte
	Timeout     lease.Millis
	TraceParent string // of the first request that waits for it; empty if none
}

// The paths of calls.
const (
	AcquirePath = "/weir.quota.v1.QuotaService/Acquire"
	RulesPath   = "/weir.quota.v1.QuotaService/Rules"
)

const (
	mostWants = 512 // in one call; the others travel with the next
	// mostAsks bounds the keys that a worker asks for at once, some 300 bytes each: more than
	// a region that answers in time leaves waiting. Requests for more take on_failure.
	mostAsks  = 1 << 14
	mostBacks = 1024
	// A breaker opens after so many calls in a row that nobody answered, and is tried
	// every probeEvery.
	breakerErrors              = 3
	probeEvery    lease.Millis = 100
)

// line is the way to the tier above for all rules with the same timeout, enforced
// and shadow rules apart: its calls, and its breaker. A line that is open makes no
// calls but probes.
type line struct {
	timeout lease.Millis
	shadow  bool

	gathered []*ask
	since    lease.Millis // when the first of what has gathered did
	urgent   bool         // somebody waits for what has gathered
	backs    []back
	hurry    bool // some of backs were taken for requests that were refused
	reports  []report
	flying   int // calls in flight

	open    bool
	errors  int          // calls that failed, none of which was followed by one with an answer
	heard   uint64       // the last call that was answered
	took    lease.Millis // about the longest of the last answers
	probeAt lease.Millis // when open
}

// back is units to give back that no slot holds any more.
type back struct {
	policy *policy
	key    table.Key
	part   lease.Part
}

// report is what the background scan found to tell of a key.
type report struct {
	policy *policy
	key    table.Key
	want   lease.Want
}

// lineOf returns the line for a timeout.
func (w *Worker) lineOf(timeout lease.Millis, shadow bool) *line {
	for _, l := range w.lines {
		if l.timeout == timeout && l.shadow == shadow {
			return l
		}
	}
	l := &line{timeout: timeout, shadow: shadow}
	w.lines = append(w.lines, l)
	return l
}

// giveBack returns units with the next call.
func (w *Worker) giveBack(p *policy, key table.Key, part lease.Part) {
	if part.Units == 0 {
		return
	}
	if p.line == nil || len(p.line.backs) >= mostBacks {
		w.Counts.Lost += uint64(part.Units)
		return
	}
	key.Text = append([]byte(nil), key.Text...)
	p.line.backs = append(p.line.backs, back{p, key, part})
}

// hurryBack returns units that were taken for a request that was refused: others
// lack them meanwhile. They leave with the next call, at the latest when those in
// flight are answered.
func (w *Worker) hurryBack(p *policy, key table.Key, part lease.Part) {
	if part.Units > 0 && p.line != nil {
		w.giveBack(p, key, part)
		p.line.hurry = true
	}
}

// flush sends what has gathered, as far as few calls are in flight.
func (w *Worker) flush(now lease.Millis) {
	for _, l := range w.lines {
		for l.due(now) && w.room(now, l) {
			w.send(now, l)
		}
		if l.hurry && l.flying == 0 && !l.open {
			w.send(now, l)
		}
	}
}

// Asks for which nobody waits gather for a moment: a call costs as much as some
// thirty wants do, and a holder tops up with a quarter of a lease left.
const (
	gatherFor  = lease.Millis(10)
	gatherMost = 64
)

// due reports whether what has gathered should travel.
func (l *line) due(now lease.Millis) bool {
	n := len(l.gathered)
	return n > 0 && (l.urgent || n >= gatherMost || now >= l.since+gatherFor)
}

// gather puts an ask on the line.
func (l *line) gather(now lease.Millis, a *ask) {
	if len(l.gathered) == 0 {
		l.since = now
	}
	l.gathered = append(l.gathered, a)
}

// call is a call in flight. Its items stand in the order of its wants.
type call struct {
	line   *line // nil: for the rules
	caller uint64
	seq    uint64
	sent   lease.Millis
	late   bool // it is for requests that have waited before, see [ask.late]
	items  []item
}

// item is one want of a call: of an ask, of a report of the scan, or units given
// back, which need no answer.
type item struct {
	ask    *ask
	report *report
	want   lease.Want
}

// period is that of the limit which an item asks or tells of; 0 where the answer is not read.
func (it *item) period() lease.Millis {
	switch {
	case it.ask != nil:
		return it.ask.policy.period
	case it.report != nil:
		return it.report.policy.period
	}
	return 0
}

// send makes one call of what has gathered on a line.
func (w *Worker) send(now lease.Millis, l *line) {
	seq := w.nextSeq()
	c := &call{line: l, caller: w.caller, seq: seq, sent: now}
	out := Call{ID: w.callID(), Path: AcquirePath, Timeout: l.timeout}
	req := &w.request
	*req = wire.Request{
		Protocol:      wire.ProtocolMin,
		ProtocolMax:   wire.ProtocolMax,
		Holder:        w.name(),
		Epoch:         w.epoch,
		Seq:           seq,
		Ack:           min(w.ack, seq-1),
		RulesVersion:  w.RulesVersion(),
		RulesRevision: w.rulesRevision,
		Wants:         req.Wants[:0],
		Pop:           w.cfg.PoP,
		TraceParent:   req.TraceParent[:0],
		Worker:        w.caller,
	}
	w.size = envelopeSize
	w.addAsks(now, l, c, &out)
	asks := len(c.items)
	w.addBacks(l, c)
	w.addReports(l, c)
	rotate(c.items, asks) // what comes back is there for who asks
	rotate(req.Wants, asks)
	out.Body = req.Append(nil)
	if len(req.TraceParent) > 0 {
		out.TraceParent = req.TraceParent[0]
	}
	w.Counts.Wants += uint64(len(req.Wants))
	l.flying++
	w.calls[out.ID] = c
	w.Calls = append(w.Calls, out)
}

// rotate moves the first n to the end.
func rotate[T any](s []T, n int) {
	if n < len(s) {
		slices.Reverse(s[:n])
		slices.Reverse(s[n:])
		slices.Reverse(s)
	}
}

func (w *Worker) callID() uint64 {
	w.lastCall++
	return w.lastCall
}

// late reports whether somebody who waits for the ask has much less time left than the
// line has for a call. A call ends with the time of the first whom it is for, and those
// who have come just now must not lose theirs.
func (a *ask) late(now lease.Millis) bool {
	for i := range a.asked {
		if v := &a.asked[i]; v.request != nil && v.live() && 8*(v.request.deadline-now) < 7*a.policy.line.timeout {
			return true
		}
	}
	return false
}

// addAsks moves what has gathered into the call: those that are late, or those that are
// not, as the first one is.
func (w *Worker) addAsks(now lease.Millis, l *line, c *call, out *Call) {
	kept, groups := l.gathered[:0], uint32(0)
	for i, a := range l.gathered {
		if len(c.items) == 0 {
			c.late = a.late(now)
		}
		if a.late(now) != c.late {
			kept = append(kept, a)
			continue
		}
		if len(c.items) == mostWants || !w.fits(a.policy, a.key.Text) {
			kept = append(kept, l.gathered[i:]...)
			break
		}
		a.flying = true
		a.state()
		m := w.wantOf(now, a)
		m.Group = group(a, &groups, c)
		a.grouped = m.Group != 0
		w.request.Wants = append(w.request.Wants, m)
		c.items = append(c.items, item{ask: a, want: a.want})
		for i := range a.asked {
			if r := a.asked[i].request; r != nil {
				out.Timeout = max(1, min(out.Timeout, r.deadline-now))
				w.trace(r)
			}
		}
	}
	clear(l.gathered[len(kept):])
	l.gathered = kept
	l.urgent = l.urgent && len(l.gathered) > 0
}

// wantOf is the want of an ask that is being sent.
func (w *Worker) wantOf(now lease.Millis, a *ask) wire.Want {
	if a.holding != nil {
		hw := w.stateSlots(now, a)
		return a.policy.named(a.key, bridge.HoldingToWire(w.number, &hw, a.want.Waiting))
	}
	return wireWant(a.policy, a.key, &a.want)
}

// group returns the number that joins the wants of one request that waits for
// several keys, if nobody else waits for these; 0 otherwise. One that waits for more
// than a group may have is decided in parts, each of them all or nothing.
func group(a *ask, groups *uint32, c *call) uint32 {
	if len(a.asked) != 1 || a.asked[0].request == nil || a.asked[0].request.undecided < 2 {
		return 0
	}
	r := a.asked[0].request
	if r.groupOf != c || r.grouped == wire.MaxGroup {
		*groups++
		r.groupOf, r.group, r.grouped = c, *groups, 0
	}
	r.grouped++
	return r.group
}

func (w *Worker) trace(r *Request) {
	t := &w.request.TraceParent
	if r.trace == "" || len(*t) >= wire.MaxTraceParents || len(*t) > 0 && (*t)[len(*t)-1] == r.trace {
		return
	}
	*t = append(*t, r.trace)
}

func (w *Worker) addBacks(l *line, c *call) {
	n := 0
	for _, b := range l.backs[:min(len(l.backs), mostWants/2)] {
		if !w.fits(b.policy, b.key.Text) {
			break
		}
		n++
		want := lease.Want{Unused: b.part.Units, Lease: b.part.Lease}
		w.request.Wants = append(w.request.Wants, wireWant(b.policy, b.key, &want))
		c.items = append(c.items, item{want: want})
	}
	l.backs = append(l.backs[:0], l.backs[n:]...)
	l.hurry = l.hurry && len(l.backs) > 0
}

func (w *Worker) addReports(l *line, c *call) {
	n := 0
	for i := range l.reports[:min(len(l.reports), wire.MaxWants-len(w.request.Wants))] {
		r := l.reports[i]
		if !w.fits(r.policy, r.key.Text) {
			break
		}
		n++
		w.request.Wants = append(w.request.Wants, wireWant(r.policy, r.key, &r.want))
		c.items = append(c.items, item{report: &r, want: r.want})
	}
	l.reports = append(l.reports[:0], l.reports[n:]...)
}

// wireWant is a want as it travels.
func wireWant(p *policy, key table.Key, want *lease.Want) wire.Want {
	return p.named(key, bridge.WantToWire(p.limit, want))
}

// named completes a want with the names of what it is for.
func (p *policy) named(key table.Key, m wire.Want) wire.Want {
	m.Rule, m.Variant, m.Override, m.Key = p.rule.Name, uint32(p.variant), p.override, key.Text
	return m
}

// room reports whether the line may make one more call. Calls that take much longer than
// the last ones took do not count, within a bound: a replica that hangs must not keep the
// others from being asked.
func (w *Worker) room(now lease.Millis, l *line) bool {
	if l.flying < w.cfg.CallsInFlight || l.flying >= lateShare*w.cfg.CallsInFlight {
		return l.flying < w.cfg.CallsInFlight
	}
	n := 0
	for _, c := range w.calls {
		if c.line == l && now-c.sent < max(soonestLate, 4*l.took) {
			n++
		}
	}
	return n < w.cfg.CallsInFlight
}

const (
	lateShare                = 4 // times as many calls may be in flight where most are late
	soonestLate lease.Millis = 10
)

// answered closes the breaker.
func (l *line) answered(seq uint64, took lease.Millis) {
	l.open, l.errors, l.heard = false, 0, max(l.heard, seq)
	l.took = max(took, l.took-(l.took+7)/8)
}

// failed counts a call that failed or hung, and opens the breaker if that is enough. One
// that was followed by a call with an answer tells nothing of the region: one of its
// replicas may hang while the others answer.
func (l *line) failed(now lease.Millis, seq uint64) {
	if seq < l.heard {
		return
	}
	if l.errors++; l.errors >= breakerErrors {
		if !l.open {
			l.probeAt = now + probeEvery
		}
		l.open = true
	}
}
