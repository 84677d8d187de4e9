package uplink

import (
	"errors"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// Port is where calls meet the owner of a worker, who makes them. The owner may set
// Ended to zero after reading it.
type Port struct {
	// Calls are to be made, in order; the owner makes them and empties the list. Each
	// ends in exactly one of Reply and Failed, which may add others.
	Calls []Call
	// AnswerError is what is wrong with an answer of the region that could not be
	// used; the owner shows it to the operator and empties it.
	AnswerError string

	Ended [CallResults]uint64 // calls, by what became of them

	lastCall uint64
}

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
	ReportPath  = "/weir.quota.v1.QuotaService/Report"
)

// CallResult is what became of a call.
type CallResult uint8

// The results of calls.
const (
	CallAnswered CallResult = iota
	CallTimedOut
	CallFailed    // the host could not make it, or the region rejected it
	CallMalformed // the reply could not be read
	CallVersion   // the region supports another version of the protocol
	CallResults   // their number
)

// call has a call made, and returns its ID.
func (p *Port) call(c Call) uint64 {
	p.lastCall++
	c.ID = p.lastCall
	p.Calls = append(p.Calls, c)
	return c.ID
}

// unusable is the result of a call with an answer that cannot be used for a reason.
func (p *Port) unusable(err error) CallResult {
	var version wire.OtherVersion
	if errors.As(err, &version) {
		p.AnswerError = "the region answers in version " + strconv.FormatUint(uint64(version), 10) + " of the quota protocol, this filter supports " +
			wire.Versions(wire.ProtocolMin, wire.ProtocolMax) + "; update the older one"
		return CallVersion
	}
	p.AnswerError = "an answer of the region cannot be read: " + err.Error() +
		"; make sure that region_cluster leads to weir-regional, with nothing in between that answers for it"
	return CallMalformed
}
