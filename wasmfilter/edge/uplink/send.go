package uplink

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// maxWants bounds the asks in one call; the others travel with the next.
const maxWants = 512

// send makes one call of what has gathered on a lane.
func (u *Uplink) send(now lease.Millis, l *Lane) {
	seq := u.next(u.flights)
	f := &Flight{Lane: l, caller: u.caller, seq: seq, Sent: now}
	call := Call{Path: AcquirePath, Timeout: l.timeout}
	req := &u.request
	*req = wire.Request{
		Protocol:      wire.ProtocolMin,
		ProtocolMax:   wire.ProtocolMax,
		Holder:        u.pop.Holder[:],
		Seq:           seq,
		Ack:           min(u.ack, seq-1),
		RulesVersion:  u.rules.Version,
		RulesRevision: u.rules.Revision,
		Wants:         req.Wants[:0],
		Pop:           u.cfg.PoP,
		Worker:        u.caller,
	}
	u.size = envelopeSize
	u.addAsks(now, l, f, &call)
	u.addReports(l, f)
	rotate(req.Wants, len(f.Asks)) // so that the asks find what is given back
	if req.TraceParent = f.traces; len(f.traces) > 0 {
		call.TraceParent = f.traces[0]
	}
	call.Body = req.Append(nil)
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
func (u *Uplink) addAsks(now lease.Millis, l *Lane, f *Flight, call *Call) {
	kept := l.gathered[:0]
	for i, a := range l.gathered {
		late := l.late(now, a)
		if len(f.Asks) == 0 {
			f.late = late
		}
		if late != f.late {
			kept = append(kept, a)
			continue
		}
		if len(f.Asks) == maxWants || !u.fits(a.Length()) {
			kept = append(kept, l.gathered[i:]...)
			break
		}
		u.request.Wants = append(u.request.Wants, a.Leave(now, f))
		f.Asks = append(f.Asks, a)
		call.Timeout = max(1, min(call.Timeout, a.Deadline()-now))
	}
	clear(l.gathered[len(kept):])
	l.gathered = kept
	l.urgent = l.urgent && len(l.gathered) > 0
}

// addReports moves reports into the call, as far as it has room for them.
func (u *Uplink) addReports(l *Lane, f *Flight) {
	n := 0
	for ; n < len(l.reports) && len(u.request.Wants) < wire.MaxWants; n++ {
		r := &l.reports[n]
		if !u.fits(len(r.Policy.Rule.Name) + len(r.Key.Text)) {
			break
		}
		u.request.Wants = append(u.request.Wants, r.Policy.Named(r.Key, &r.Want))
		f.Reports = append(f.Reports, *r)
	}
	l.reports = append(l.reports[:0], l.reports[n:]...)
	l.soon = l.soon && len(l.reports) > 0
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

// fits counts one more want, with names of so many bytes, into the call that is being made;
// false if the message would become too long.
func (u *Uplink) fits(names int) bool {
	size := u.size + names + numbersSize
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
func (s *sequence) next(flights map[uint64]*Flight) uint64 {
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
