package edge

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	mostWants = 512 // in one call; the others travel with the next
	// mostAsks bounds the keys that a worker asks for at once, some 300 bytes each: more than
	// a region that answers in time leaves waiting. Requests for more take on_failure.
	mostAsks = 1 << 14
	// mostReturns bounds what waits to be given back, or to be reported, per lane.
	mostReturns = 1024
)

// uplink is the way to the tier above: the asks that are pending, the lanes on which
// they travel, and the calls in flight.
type uplink struct {
	cfg   *Config
	port  *Port
	pop   *pop
	rules *rulebook
	slots *slots

	sequence
	lanes   []*lane
	asks    map[uint64]*ask // pending, by hash of the key
	spare   []*ask
	flights map[uint64]*flight // by ID of the call
	holders int                // of the region, by its last reply; 0: unknown
	share   reserve.PerMille   // of the region in limits of scope global, by its last reply; 0: unknown
	flushed lease.Millis       // when flush was called last

	request  wire.Request
	size     int // at most so many bytes of it are encoded
	response wire.Response
}

// lane returns the lane for a timeout.
func (u *uplink) lane(timeout lease.Millis, shadow bool) *lane {
	for _, l := range u.lanes {
		if l.timeout == timeout && l.shadow == shadow {
			return l
		}
	}
	l := &lane{timeout: timeout, shadow: shadow, port: u.port}
	u.lanes = append(u.lanes, l)
	return l
}

// full reports whether no other key may be asked for.
func (u *uplink) full() bool { return len(u.asks) >= mostAsks }

// mayAsk reports whether an ask for a key could leave now.
func (u *uplink) mayAsk(p *policy, key table.Key) bool {
	return u.asks[key.Hash] == nil && !u.full() && !p.lane.Open
}

// gather puts an ask for a key on its lane; it travels with the next call.
func (u *uplink) gather(now lease.Millis, p *policy, key table.Key, want lease.Want) *ask {
	var a *ask
	if n := len(u.spare); n > 0 {
		a, u.spare = u.spare[n-1], u.spare[:n-1]
	} else {
		a = &ask{}
	}
	a.policy, a.want = p, want
	a.key = table.Key{Hash: key.Hash, Rule: key.Rule, Text: append(a.key.Text[:0], key.Text...)}
	a.holding = u.slots.holdings[key.Hash]
	u.asks[key.Hash] = a
	p.lane.gather(now, a)
	return a
}

// endAsk forgets an ask that no hit waits for any more.
func (u *uplink) endAsk(a *ask) {
	delete(u.asks, a.key.Hash)
	if len(u.spare) < 256 {
		*a = ask{key: table.Key{Text: a.key.Text[:0]}, asked: a.asked[:0], queue: a.queue[:0]}
		u.spare = append(u.spare, a)
	}
}

// flush sends what has gathered, as far as few calls are in flight.
func (u *uplink) flush(now lease.Millis) {
	quiet := now >= u.flushed+gatherFor
	u.flushed = now
	for _, l := range u.lanes {
		for l.due(now, quiet) && u.room(now, l) {
			u.send(now, l)
		}
		if l.soon && l.flying == 0 && !l.Open {
			u.send(now, l)
		}
	}
}

// tick makes the calls for which no request waits: probes, give-backs and reports. A
// lane whose breaker is open sends an empty call, to see whether the region answers.
func (u *uplink) tick(now lease.Millis) {
	for _, l := range u.lanes {
		if l.flying == 0 && (l.ProbeDue(now) || !l.Open && len(l.returns)+len(l.findings) > 0) {
			l.Probed(now, u.pop.jitter())
			u.send(now, l)
		}
	}
}

// room reports whether the lane may make one more call. Calls that take much longer than
// the last ones took do not count, within a bound: a replica that hangs must not keep the
// others from being asked.
func (u *uplink) room(now lease.Millis, l *lane) bool {
	if l.flying < u.cfg.CallsInFlight || l.flying >= lateShare*u.cfg.CallsInFlight {
		return l.flying < u.cfg.CallsInFlight
	}
	n := 0
	for _, f := range u.flights {
		if f.lane == l && now-f.sent < max(soonestLate, 4*l.took) {
			n++
		}
	}
	return n < u.cfg.CallsInFlight
}

const (
	lateShare                = 4 // times as many calls may be in flight where most are late
	soonestLate lease.Millis = 10
)

// send makes one call of what has gathered on a lane.
func (u *uplink) send(now lease.Millis, l *lane) {
	seq := u.next(u.flights)
	f := &flight{lane: l, caller: u.caller, seq: seq, sent: now}
	call := Call{Path: AcquirePath, Timeout: l.timeout}
	req := &u.request
	*req = wire.Request{
		Protocol:      wire.ProtocolMin,
		ProtocolMax:   wire.ProtocolMax,
		Holder:        u.pop.holder[:],
		Epoch:         u.pop.epoch,
		Seq:           seq,
		Ack:           min(u.ack, seq-1),
		RulesVersion:  u.rules.version,
		RulesRevision: u.rules.revision,
		Wants:         req.Wants[:0],
		Pop:           u.cfg.PoP,
		TraceParent:   req.TraceParent[:0],
		Worker:        u.caller,
	}
	u.size = envelopeSize
	u.addAsks(now, l, f, &call)
	l.returns = u.addReports(f, l.returns, mostWants/2, false)
	l.soon = l.soon && len(l.returns) > 0
	l.findings = u.addReports(f, l.findings, wire.MaxWants-len(req.Wants), true)
	rotate(req.Wants, len(f.asks)) // so that the asks find what is given back
	call.Body = req.Append(nil)
	if len(req.TraceParent) > 0 {
		call.TraceParent = req.TraceParent[0]
	}
	u.port.Counts.Wants += uint64(len(req.Wants))
	l.flying++
	u.flights[u.port.call(call)] = f
}

// rotate moves the first n to the end.
func rotate[T any](s []T, n int) {
	if n < len(s) {
		slices.Reverse(s[:n])
		slices.Reverse(s[n:])
		slices.Reverse(s)
	}
}

// addAsks moves what has gathered into the call: those that are late, or those that are
// not, as the first one is.
func (u *uplink) addAsks(now lease.Millis, l *lane, f *flight, call *Call) {
	kept, groups := l.gathered[:0], uint32(0)
	for i, a := range l.gathered {
		if len(f.asks) == 0 {
			f.late = a.late(now)
		}
		if a.late(now) != f.late {
			kept = append(kept, a)
			continue
		}
		if len(f.asks) == mostWants || !u.fits(a.policy, a.key) {
			kept = append(kept, l.gathered[i:]...)
			break
		}
		a.flying = true
		a.update()
		m := u.wantOf(now, a)
		m.Group = a.group(&groups, f)
		a.grouped = m.Group != 0
		u.request.Wants = append(u.request.Wants, m)
		f.asks = append(f.asks, a)
		for i := range a.asked {
			if r := a.asked[i].request; r != nil {
				call.Timeout = max(1, min(call.Timeout, r.deadline-now))
				u.trace(r)
			}
		}
	}
	clear(l.gathered[len(kept):])
	l.gathered = kept
	l.urgent = l.urgent && len(l.gathered) > 0
}

// wantOf is the want of an ask that is being sent.
func (u *uplink) wantOf(now lease.Millis, a *ask) wire.Want {
	if a.holding == nil {
		return a.policy.named(a.key, &a.want)
	}
	states := u.slots.state(now, a.holding, &a.policy.terms, a.want.Need, a.want.Waiting)
	states.Want = max(states.Want, states.Waiting)
	m := a.policy.named(a.key, &states)
	m.SetWorker(u.pop.number)
	return m
}

// named is a want as it travels, with the name of the counter that it is for.
func (p *policy) named(key table.Key, w *lease.Want) wire.Want {
	m := wire.Want{Rule: p.rule.Name, Variant: uint32(p.variant), Override: p.override, Key: key.Text, Shape: p.limit.Fingerprint(), Want: *w}
	m.Bound()
	return m
}

func (u *uplink) trace(r *Request) {
	t := &u.request.TraceParent
	if r.trace == "" || len(*t) >= wire.MaxTraceParents || len(*t) > 0 && (*t)[len(*t)-1] == r.trace {
		return
	}
	*t = append(*t, r.trace)
}

// addReports adds the first of a list of reports to the call, as far as it has room for
// them, and returns the others. The account takes the answer if account is true.
func (u *uplink) addReports(f *flight, list []report, most int, account bool) (rest []report) {
	n := 0
	for ; n < min(len(list), most) && u.fits(list[n].policy, list[n].key); n++ {
		r := list[n]
		u.request.Wants = append(u.request.Wants, r.policy.named(r.key, &r.want))
		if !account {
			r.policy, r.key = nil, table.Key{}
		}
		f.reports = append(f.reports, r)
	}
	return append(list[:0], list[n:]...)
}

// Whatever requests come, a call keeps within the bounds of its receiver: what one
// client sends must not cost others their answer. What does not fit travels with
// the next call.
const (
	// envelopeSize bounds what a call has beside its wants: numbers, the holder, the
	// version of the rules, the PoP's name and trace parents.
	envelopeSize = 256 + wire.MaxPop + wire.MaxTraceParents*64
	// numbersSize bounds what a want has beside its rule and its key: some 16 numbers
	// of at most 10 bytes, each with a tag of at most 2, and lengths.
	numbersSize = 256
)

// fits counts one more want into the call that is being made; false if the message
// would become too long.
func (u *uplink) fits(p *policy, key table.Key) bool {
	size := u.size + len(p.rule.Name) + len(key.Text) + numbersSize
	if size > wire.MaxMessage {
		return false
	}
	u.size = size
	return true
}

// sequence numbers the calls of this worker, so that the region recognises
// repeated ones.
type sequence struct {
	// caller names the worker to the region. It is the worker's number at first.
	caller uint64
	// seq is the number of the last call, and never runs backwards: the region orders
	// by it what the worker states of its slots.
	seq uint64
	ack uint64 // the largest that was answered
}

// next takes the number of the next call. Where a call in flight is so far behind
// that the region could take it for a repeated one, the worker goes on under
// another name: then its number need not be near those of the next calls.
func (s *sequence) next(flights map[uint64]*flight) uint64 {
	s.seq++
	for _, f := range flights {
		if f.caller == s.caller && s.seq-f.seq >= lease.CallWindow {
			const golden = 0x9e3779b97f4a7c15 // odd: 2^64 names before one comes again
			if s.caller += golden; s.caller == 0 {
				s.caller = golden
			}
			break
		}
	}
	return s.seq
}
