package edge

import (
	"errors"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
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

// call has a call made, and returns its ID.
func (p *Port) call(c Call) uint64 {
	p.lastCall++
	c.ID = p.lastCall
	p.Calls = append(p.Calls, c)
	return c.ID
}

// flight is a call to the tier above until it has ended. Its wants are those of the reports,
// then those of the asks.
type flight struct {
	lane   *lane
	caller uint64
	seq    uint64
	sent   lease.Millis
	late   bool // it is for requests that have waited before, see [ask.late]

	reports []report
	asks    []*ask

	answered bool         // it ended with an answer
	grants   []wire.Grant // of the answer, one per want; valid until the next call ends
}

// reply ends the call of that id with the body of an answer; nil if there is none.
func (u *uplink) reply(now lease.Millis, id uint64, body []byte) *flight {
	f := u.land(id)
	if f == nil {
		return nil
	}
	if err := u.response.DecodeAnswer(body, f.seq, len(f.reports)+len(f.asks)); err != nil {
		u.failed(now, f, u.port.unusable(err))
		return f
	}
	m := &u.response
	u.port.Counts.Calls[CallAnswered]++
	f.lane.Answered(f.seq)
	f.lane.took = max(now-f.sent, f.lane.took-(f.lane.took+7)/8)
	f.answered, f.grants = true, m.Grants
	u.ack = max(u.ack, f.seq)
	u.pop.noteEpoch(m.Epoch)
	if m.Holders > 0 {
		u.holders = int(m.Holders)
	}
	u.share = reserve.PerMille(m.SharePerMille)
	u.rules.note(now, m.RulesVersion, m.RulesRevision)
	return f
}

// fail ends the call of that id without an answer; nil if there is none.
func (u *uplink) fail(now lease.Millis, id uint64, result CallResult) *flight {
	f := u.land(id)
	if f != nil {
		u.failed(now, f, result)
	}
	return f
}

// land takes a call out of those in flight.
func (u *uplink) land(id uint64) *flight {
	f := u.flights[id]
	if f != nil {
		delete(u.flights, id)
		f.lane.flying--
	}
	return f
}

// failed counts a call that failed. What was given back with it is lost, and never sent
// again. That a call had only the rest of a request's time, and did not end within it,
// shows nothing about the region.
func (u *uplink) failed(now lease.Millis, f *flight, result CallResult) {
	u.port.Counts.Calls[result]++
	if !f.late || result != CallTimedOut {
		f.lane.Failed(now, f.seq, 100)
	}
	for i := range f.reports {
		u.port.Counts.Lost += uint64(f.reports[i].want.Unused)
	}
	for _, a := range f.asks {
		u.port.Counts.Lost += uint64(a.want.Unused)
	}
}

// unusable is the result of a call with an answer that cannot be used for a reason.
func (p *Port) unusable(err error) CallResult {
	var version wire.OtherVersion
	if errors.As(err, &version) {
		p.AnswerError = "the region answers in version " + strconv.FormatUint(uint64(version), 10) + " of the quota protocol, this filter supports " +
			wire.Versions(wire.ProtocolMin, wire.ProtocolMax) + "; run a filter and a weir-regional that are at most one release apart"
		return CallVersion
	}
	p.AnswerError = "an answer of the region cannot be read: " + err.Error() +
		"; make sure that region_cluster leads to weir-regional, with nothing in between that answers for it"
	return CallMalformed
}
