package rulebook

// Decision is how a rule decided one request, for metrics.
type Decision uint8

// The decisions.
const (
	Allowed       Decision = iota
	Denied                 // over the limit
	ShadowAllowed          // mode: shadow
	ShadowDenied           // mode: shadow; the request passed
	Exempted               // the rule is exempt, and lifted others
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
