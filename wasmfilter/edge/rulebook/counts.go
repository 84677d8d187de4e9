package rulebook

import "github.com/weirlimit/weir/internal/wire"

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

// RuleCounts counts what a rule did since the worker started, by name over all versions of the
// rules.
type RuleCounts struct {
	Counts
	Shown Counts // what its owner has put into metrics; the worker does not look at it
}

// Counts are numbers of requests.
type Counts struct {
	Decided    [Decisions]uint64
	Waited     uint64 // those that waited for this rule
	MissingKey uint64 // those that matched but for a part of their key
}

// addTo adds what was decided to the use of a rule.
func (c *Counts) addTo(u *wire.RuleUse) {
	for d, n := range c.Decided {
		u.Matched += n
		switch Decision(d) {
		case Allowed, FailedOpen, LocalAllowed, FullAllowed:
			u.Admitted += n
		case Denied, FailedClosed, LocalDenied, FullDenied:
			u.Denied += n
		case ShadowDenied:
			u.ShadowDenied += n
		}
	}
	u.NoKey += c.MissingKey
}

// Uses appends the use of each rule in force that decided anything.
func (b *Rulebook) Uses(dst []wire.RuleUse) []wire.RuleUse {
	if b.InForce == nil {
		return dst
	}
	for i, policies := range b.InForce.ByRule {
		u := wire.RuleUse{Rule: b.InForce.Set.Rule(i).Name}
		own := b.CountsOf(u.Rule)
		own.addTo(&u)
		for v := range policies {
			if c := policies[v].Counts; c != own { // of an override with a name
				c.addTo(&u)
			}
		}
		if u.Matched+u.NoKey > 0 {
			dst = append(dst, u)
		}
	}
	return dst
}
