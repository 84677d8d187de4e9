package edge

// Decision is how a rule decided one request, for metrics.
type Decision uint8

// The decisions.
const (
	Allowed       Decision = iota
	Denied                 // over the limit
	ShadowAllowed          // mode: shadow
	ShadowDenied           // mode: shadow; the request passed
	FailedOpen             // allowed by on_failure
	FailedClosed           // denied by on_failure
	LocalAllowed           // on_failure: local, within the share
	LocalDenied            // on_failure: local, beyond the share
	FullAllowed            // no room in the table: by the counter that such keys share, if there is one
	FullDenied
	Decisions // their number
)

// RuleCounts counts what a rule did, by name over all versions of the rules.
// The owner may set it to zero after reading it.
type RuleCounts struct {
	Decided    [Decisions]uint64
	Waited     uint64 // requests that waited for this rule
	MissingKey uint64 // requests that matched but for a part of their key
}

// Counts counts what a worker did.
type Counts struct {
	Calls  [CallResults]uint64
	Wants  uint64 // sent
	Parked uint64 // replies that could not be written at once
	Lost   uint64 // units that were neither used nor given back
	// Unreported is units that were admitted without a lease and that are not
	// reported to the region: their rule is gone.
	Unreported uint64
	BeforeAny  uint64 // requests decided by before_rules
}

// CallResult is what became of a call.
type CallResult uint8

// The results of calls.
const (
	CallAnswered CallResult = iota
	CallTimedOut
	CallFailed    // the host could not make it, or the region refused it
	CallMalformed // the reply could not be read
	CallVersion   // the region supports another version of the protocol
	CallResults   // their number
)
