package uplink

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
)

// Flight is a call to the region until it has ended. Its wants are those of the reports,
// then those of the asks.
type Flight struct {
	Lane    *Lane
	Sent    lease.Millis
	Reports []Report
	Asks    []Ask

	Answered bool         // it ended with an answer
	Grants   []wire.Grant // of the answer, one per want; valid until the next call ends

	caller uint64
	seq    uint64
	late   bool     // it is for requests that have waited before, see [Lane.late]
	groups uint32   // of wants
	traces []string // of requests that wait for it
}

// NextGroup is the number of a new group of wants, which are granted all or none.
func (f *Flight) NextGroup() uint32 {
	f.groups++
	return f.groups
}

// Trace adds the traceparent of a request that waits for the call; empty: it has none.
func (f *Flight) Trace(parent string) {
	n := len(f.traces)
	if parent == "" || n >= wire.MaxTraceParents || n > 0 && f.traces[n-1] == parent {
		return
	}
	f.traces = append(f.traces, parent)
}

// TraceParent returns what of a client's traceparent header travels with a call: nothing unless it has the length and
// the bytes of those of W3C Trace Context, and is sampled. The region reads the rest.
func TraceParent(header string) string {
	const flags = 54 // the last digit of the flags; odd: sampled
	if len(header) != flags+1 || strings.Trim(header, "0123456789abcdef-") != "" || strings.IndexByte("13579bdf", header[flags]) < 0 {
		return ""
	}
	return header
}

// End ends the call of that id: with the body of an answer, or without one. It returns the call if anything waits for it.
// What was given back with a call that failed is lost, and never sent again.
func (u *Uplink) End(now lease.Millis, id uint64, result CallResult, body []byte) *Flight {
	f := u.flights[id]
	switch {
	case u.reported(now, id, body):
		return nil
	case u.fetched(id):
		if result == CallAnswered {
			result = u.offer(now, body)
		}
		u.port.Ended[result]++
		return nil
	case f == nil:
		return nil
	}
	delete(u.flights, id)
	f.Lane.flying--
	if result == CallAnswered {
		if err := u.response.DecodeAnswer(body, f.seq, len(f.Reports)+len(f.Asks)); err != nil {
			result = u.port.unusable(err)
		}
	}
	u.port.Ended[result]++
	switch {
	case result == CallAnswered:
		u.answered(now, f)
	case f.late && result == CallTimedOut: // that it had only the rest of a request's time shows nothing about the region
	default:
		f.Lane.Failed(now, f.seq, 100)
	}
	return f
}

// answered takes what the answer says that has been decoded.
func (u *Uplink) answered(now lease.Millis, f *Flight) {
	m := &u.response
	f.Lane.Answered(f.seq)
	f.Lane.took = max(now-f.Sent, f.Lane.took-(f.Lane.took+7)/8)
	f.Answered, f.Grants = true, m.Grants
	u.ack = max(u.ack, f.seq)
	if m.Holders > 0 {
		u.Holders = int(m.Holders)
	}
	u.Share = reserve.PerMille(m.SharePerMille)
	u.watched(now, m.WatchMs)
	if u.rules.Note(now, m.RulesVersion, m.RulesRevision) || u.rules.LacksSecret(now, m.Secret) {
		u.FetchRules(now)
	}
}
