package rulebook

import (
	"github.com/weirlimit/weir/internal/distinct"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/internal/wire"
)

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
	Blocked                                // denied by on_limit: block
	shedFirst                              // by a shed rule, see [Shed]
	Decisions = shedFirst + 4*shed.Classes // their number
)

// Shed is how a shed rule decided a request of a class.
func Shed(c shed.Class, denied, shadow bool) Decision {
	like := Allowed
	if denied {
		like = Denied
	}
	if shadow {
		like += ShadowAllowed
	}
	return shedFirst + like*shed.Classes + Decision(c)
}

// ByShed is which of the first four decisions one of a shed rule is like, and the class; any other is like itself, and ok is false
// then.
func (d Decision) ByShed() (like Decision, c shed.Class, ok bool) {
	if d < shedFirst {
		return d, 0, false
	}
	return (d - shedFirst) / shed.Classes, shed.Class((d - shedFirst) % shed.Classes), true
}

// RuleCounts counts what a rule did since the worker started, by name over all versions of the
// rules.
type RuleCounts struct {
	Counts
	Shown Counts // what its owner has put into metrics; the worker does not look at it

	admitted, denied lately
	onTrial          *distinct.Keys // that it would have rejected since the last [Rulebook.ForgetTrials]; nil: none
}

// RejectOnTrial notes a key that the rule would have rejected were its mode not shadow.
func (c *RuleCounts) RejectOnTrial(key []byte) {
	if c.onTrial == nil {
		c.onTrial = new(distinct.Keys)
	}
	c.onTrial.Add(rule.HashText(key))
}

// Counts are numbers of requests.
type Counts struct {
	Decided    [Decisions]uint64
	Waited     uint64 // those that waited for this rule
	MissingKey uint64 // those that matched but for a part of their key
	// MissingCost is those whose response stated no cost that can be read: they have cost what they reserved.
	MissingCost uint64
}

// lately is a number of requests, and how fast it rose.
type lately struct {
	at          lease.Millis // when it was this
	count, rate uint64
}

// of is how many requests a second there are, in thousandths, by the last calls; 0 if the last one is long ago.
func (l *lately) of(count uint64, now lease.Millis) uint64 {
	const long = 5000 // ms
	rate, elapsed := uint64(0), now-l.at
	if elapsed > 0 && elapsed < long {
		rate = (count - l.count) * 1_000_000 / uint64(elapsed)
		if l.rate > 0 {
			rate = (rate + l.rate) / 2
		}
	}
	*l = lately{now, count, rate}
	return rate
}

// addTo adds what was decided to the use of a rule.
func (c *RuleCounts) addTo(u *wire.RuleUse, now lease.Millis) {
	var admitted, denied uint64
	for d, n := range c.Decided {
		u.Matched += n
		like, _, sheds := Decision(d).ByShed()
		switch like {
		case Allowed, FullAllowed:
			admitted += n
		case FailedOpen, LocalAllowed:
			admitted, u.Fallback = admitted+n, u.Fallback+n
		case FailedClosed, LocalDenied:
			denied, u.Fallback = denied+n, u.Fallback+n
		case Denied, FullDenied, Blocked:
			if denied += n; sheds {
				u.Shed += n
			}
		case ShadowAllowed:
			u.ShadowAdmitted += n
		case ShadowDenied:
			u.ShadowDenied += n
		}
	}
	u.NoKey += c.MissingKey
	u.Admitted, u.Denied = u.Admitted+admitted, u.Denied+denied
	u.AdmittedRate += c.admitted.of(admitted, now)
	u.DeniedRate += c.denied.of(denied, now)
}

// Uses appends the use of each rule in force that decided anything. Rates are those of the time since the
// last call, and less and less of calls before; 0: that was long ago.
func (b *Rulebook) Uses(dst []wire.RuleUse, now lease.Millis) []wire.RuleUse {
	for i, policies := range b.InForce.ByRule {
		u := wire.RuleUse{Rule: b.InForce.Set.Rule(i).Name}
		own := b.CountsOf(u.Rule)
		own.addTo(&u, now)
		for v := range policies {
			if c := policies[v].Counts; c != own { // of an override with a name
				c.addTo(&u, now)
			}
		}
		if u.Matched+u.NoKey > 0 {
			dst = append(dst, u)
		}
	}
	return dst
}

// maxTrials bounds the rules of which [Rulebook.Trials] has keys.
const maxTrials = 16

// Trials appends the keys that rules on trial would have rejected, of each rule in force those of all its overrides.
func (b *Rulebook) Trials(dst []wire.TrialKeys) []wire.TrialKeys {
	for i, policies := range b.InForce.ByRule {
		var all distinct.Keys
		for v := range policies {
			if keys := policies[v].Counts.onTrial; keys != nil {
				all.Merge(keys[:])
			}
		}
		if all != (distinct.Keys{}) && len(dst) < maxTrials {
			dst = append(dst, wire.TrialKeys{Rule: b.InForce.Set.Rule(i).Name, Registers: all[:]})
		}
	}
	return dst
}

// ForgetTrials begins anew to note keys of rules on trial.
func (b *Rulebook) ForgetTrials() {
	for _, c := range b.counts {
		c.onTrial = nil
	}
}
