// Package live makes the reports of a worker: its state, the decisions of its rules, the busiest keys, and single decisions.
// While somebody watches, a worker reports once a second. Otherwise it reports every 10 s if its rules decided anything: for the
// history that the region keeps. A busy worker counts keys for a part of each minute then.
//
// The package is pure. Package uplink sends the reports.
package live

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/topkeys"
)

// View is what is collected while somebody watches, and for the history.
type View struct {
	busiest, rejected *topkeys.Sketch // the keys that come most, and those that are rejected most

	decayed lease.Millis // when their counts last did, or began
	before  lease.Millis // how far these reached back then

	tap *tap // nil: nobody watches decisions
}

func newView(now lease.Millis) *View {
	return &View{busiest: topkeys.New(), rejected: topkeys.New(), decayed: now}
}

// outcomes are those of decisions.
var outcomes = [rulebook.Decisions]wire.Outcome{
	rulebook.Allowed:       wire.OutcomeAdmitted,
	rulebook.Denied:        wire.OutcomeDenied,
	rulebook.ShadowAllowed: wire.OutcomeAdmitted,
	rulebook.ShadowDenied:  wire.OutcomeWouldDeny,
	rulebook.Exempted:      wire.OutcomeAdmitted,
	rulebook.FailedOpen:    wire.OutcomeUnavailable,
	rulebook.FailedClosed:  wire.OutcomeDenied,
	rulebook.LocalAllowed:  wire.OutcomeUnavailable,
	rulebook.LocalDenied:   wire.OutcomeDenied,
	rulebook.FullAllowed:   wire.OutcomeUnavailable,
	rulebook.FullDenied:    wire.OutcomeDenied,
	rulebook.Blocked:       wire.OutcomeDenied,
}

// Decided is what a rule decided on a request.
type Decided struct {
	Policy    *rulebook.Policy
	Key       table.Key
	Decision  rulebook.Decision
	Own       int64        // the key's own limit, see holder.State.OwnLimit
	Remaining int64        // units
	Retry     lease.Millis // after how long a client that is rejected should come back
}

// Show takes what is decided now.
func (v *View) Show(now lease.Millis, did Decided) {
	if did.Policy.Rule.HideKeys {
		return
	}
	key, outcome := did.Key, outcomes[did.Decision]
	rejected := outcome == wire.OutcomeDenied || outcome == wire.OutcomeWouldDeny
	v.busiest.Add(key.Hash, key.Rule, did.Own, key.Text)
	if rejected {
		v.rejected.Add(key.Hash, key.Rule, did.Own, key.Text)
	}
	if t := v.tap; t != nil && t.wants(did.Policy, key, outcome) {
		if d := t.take(); d != nil {
			d.at, d.Decided, d.outcome = now, did, outcome
			d.size, d.Key.Text = copy(d.text[:], key.Text), nil
			if !rejected {
				d.Retry = 0
			}
		}
	}
}

// horizon is how far the counts reach back: what comes at a steady rate has a count of so much
// times that.
func (v *View) horizon(now lease.Millis) lease.Millis { return v.before + now - v.decayed }

// decay lets the counts decay.
func (v *View) decay(now lease.Millis) {
	v.before, v.decayed = v.horizon(now)*7/8, now
	v.busiest.Decay()
	v.rejected.Decay()
}

// tap is the decisions since the last report that somebody wants to see. Of more than it may
// have chance picks, each as likely as any other.
type tap struct {
	wire.Tap
	seen  uint64 // that it wants
	taken []tapped
	pop   *pop.PoP // for chance
}

type tapped struct {
	Decided // the text of its key is in text[:size]

	at      lease.Millis
	outcome wire.Outcome
	size    int
	text    [rule.MaxKey]byte
}

func (t *tap) wants(p *rulebook.Policy, key table.Key, outcome wire.Outcome) bool {
	return (t.Outcome == 0 || t.Outcome == outcome) && (t.Rule == "" || t.Rule == p.Rule.Name || t.Rule == rule.Written(p.Rule.Name)) &&
		(len(t.Key) == 0 || string(t.Key) == string(key.Text))
}

// take is the place for a decision; nil: it is left out.
func (t *tap) take() *tapped {
	t.seen++
	most := int(min(max(t.PerSecond, 1), wire.MaxDecisions))
	if n := len(t.taken); n < most {
		t.taken = append(t.taken, tapped{})
		return &t.taken[n]
	}
	if i := t.pop.UpTo(t.seen - 1); i < uint64(most) {
		return &t.taken[i]
	}
	return nil
}
