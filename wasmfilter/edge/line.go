package edge

import (
	"github.com/weirlimit/weir/internal/lease"
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
	mostBacks = 1024
	// A breaker opens at the first call that nobody answered, or after so many
	// errors in a row, and is tried every probeEvery.
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
	reports  []report
	flying   int // calls in flight

	open    bool
	errors  int
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

// flush sends what has gathered, as far as few calls are in flight.
func (w *Worker) flush(now lease.Millis) {
	for _, l := range w.lines {
		for l.due(now) && l.flying < w.cfg.CallsInFlight {
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
	line  *line // nil: for the rules
	seq   uint64
	sent  lease.Millis
	short bool // its timeout was cut to what a request had left: if it passes, nothing need hang
	items []item
}

// item is one want of a call: of an ask, of a report of the scan, or units given
// back, which need no answer.
type item struct {
	ask    *ask
	report *report
	want   lease.Want
}

// send makes one call of what has gathered on a line.
func (w *Worker) send(now lease.Millis, l *line) {
	seq, ok := w.nextSeq()
	if !ok {
		w.Counts.NoSeq++
		w.failGathered(now, l)
		return
	}
	c := &call{line: l, seq: seq, sent: now}
	out := Call{ID: w.callID(), Path: AcquirePath, Timeout: l.timeout}
	req := &w.request
	*req = wire.Request{
		Protocol:     wire.Protocol,
		Holder:       w.holder[:],
		Epoch:        w.epoch,
		Seq:          seq,
		Ack:          min(w.ack, seq-1),
		RulesVersion: w.RulesVersion(),
		Wants:        req.Wants[:0],
		Pop:          w.cfg.PoP,
		TraceParent:  req.TraceParent[:0],
	}
	w.addAsks(now, l, c, &out)
	c.short = out.Timeout < l.timeout
	w.addBacks(l, c)
	w.addReports(l, c)
	out.Body = req.Append(nil)
	if len(req.TraceParent) > 0 {
		out.TraceParent = req.TraceParent[0]
	}
	w.Counts.Wants += uint64(len(req.Wants))
	l.flying++
	w.calls[out.ID] = c
	w.Calls = append(w.Calls, out)
}

func (w *Worker) callID() uint64 {
	w.lastCall++
	return w.lastCall
}

// addAsks moves what has gathered into the call.
func (w *Worker) addAsks(now lease.Millis, l *line, c *call, out *Call) {
	n := min(len(l.gathered), mostWants)
	groups := uint32(0)
	for _, a := range l.gathered[:n] {
		a.flying = true
		a.state()
		m := wireWant(a.policy, a.key, a.want)
		if a.holding != nil {
			a.holding.state(now, a.want, w.number, &m)
		}
		m.Group = group(a, &groups, c)
		w.request.Wants = append(w.request.Wants, m)
		c.items = append(c.items, item{ask: a, want: a.want})
		for i := range a.asked {
			if r := a.asked[i].request; r != nil {
				out.Timeout = max(1, min(out.Timeout, r.deadline-now))
				w.trace(r)
			}
		}
	}
	l.gathered = append(l.gathered[:0], l.gathered[n:]...)
	l.urgent = l.urgent && len(l.gathered) > 0
}

// group returns the number that joins the wants of one request that waits for
// several keys, if nobody else waits for these; 0 otherwise.
func group(a *ask, groups *uint32, c *call) uint32 {
	if len(a.asked) != 1 || a.asked[0].request == nil || a.asked[0].request.undecided < 2 {
		return 0
	}
	r := a.asked[0].request
	if r.groupOf != c {
		*groups++
		r.groupOf, r.group = c, *groups
	}
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
	n := min(len(l.backs), mostWants/2)
	for _, b := range l.backs[:n] {
		want := lease.Want{Unused: b.part.Units, Lease: b.part.Lease}
		w.request.Wants = append(w.request.Wants, wireWant(b.policy, b.key, want))
		c.items = append(c.items, item{want: want})
	}
	l.backs = append(l.backs[:0], l.backs[n:]...)
}

func (w *Worker) addReports(l *line, c *call) {
	n := min(len(l.reports), wire.MaxWants-len(w.request.Wants))
	for i := range l.reports[:n] {
		r := l.reports[i]
		w.request.Wants = append(w.request.Wants, wireWant(r.policy, r.key, r.want))
		c.items = append(c.items, item{report: &r, want: r.want})
	}
	l.reports = append(l.reports[:0], l.reports[n:]...)
}

func wireWant(p *policy, key table.Key, want lease.Want) wire.Want {
	return wire.Want{
		Rule:      p.rule.Name,
		Variant:   uint32(p.variant),
		Key:       key.Text,
		Need:      uint64(want.Need),
		Waiting:   uint64(want.Waiting),
		Want:      uint64(want.Want),
		Unused:    uint64(want.Unused),
		Lease:     uint64(p.limit.Fingerprint())<<32 | uint64(want.Lease),
		Overdrawn: uint64(want.Overdrawn),
		Denied:    uint64(want.Denied),
		Fresh:     want.Fresh,
		Next:      want.Next,
	}
}

// answered closes the breaker.
func (l *line) answered() { l.open, l.errors = false, 0 }

// failed counts a call that failed, and opens the breaker if that is enough: at
// once for a call that nobody answered.
func (l *line) failed(now lease.Millis, hung bool) {
	if l.errors++; hung || l.errors >= breakerErrors {
		if !l.open {
			l.probeAt = now + probeEvery
		}
		l.open = true
	}
}
