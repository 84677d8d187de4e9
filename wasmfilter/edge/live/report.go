package live

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/topkeys"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

const (
	// reportEvery is the least time from one report to the next.
	reportEvery lease.Millis = 1000
	// shownKeys is how many keys of each kind a report has.
	shownKeys = 100
)

// Reporter makes the reports of a worker, at most one a second, while somebody watches.
type Reporter struct {
	View *View // of what is decided; nil: nobody watches

	cfg    *rulebook.Config
	pop    *pop.PoP
	rules  *rulebook.Rulebook
	uplink *uplink.Uplink

	started   lease.Millis
	next      lease.Millis // when a report may be sent
	problem   string       // the last one; empty: none
	problemAt lease.Millis

	request wire.ReportRequest
	top     []topkeys.Key
}

// Self is what a worker knows of itself.
type Self struct {
	Version string // of the module
	Keys    int    // in the fuller of the tables, which have so many
	Places  int    // 0: another worker counts
}

// New returns the reporter of a worker that starts now.
func New(cfg *rulebook.Config, pop *pop.PoP, rules *rulebook.Rulebook, up *uplink.Uplink, now lease.Millis) *Reporter {
	return &Reporter{cfg: cfg, pop: pop, rules: rules, uplink: up, started: now}
}

// Problem notes what went wrong.
func (r *Reporter) Problem(now lease.Millis, text string) {
	r.problem, r.problemAt = strings.ToValidUTF8(text[:min(len(text), wire.MaxProblem)], ""), now
}

// Tick sends a report if one is due, and begins or ends to collect.
func (r *Reporter) Tick(now lease.Millis, self Self) {
	w := &r.uplink.Watch
	if now >= w.Until {
		if w.Until > 0 {
			*w, r.View = uplink.Watch{}, nil
			r.request, r.top = wire.ReportRequest{}, nil // they point into the view
		}
		return
	}
	if now >= r.next && !r.uplink.Reporting() {
		r.next = now + reportEvery
		r.uplink.SendReport(r.report(now, self))
		if r.View != nil {
			r.View.decay(now)
		}
	}
	if r.View == nil {
		r.View = &View{busiest: topkeys.New(), rejected: topkeys.New(), decayed: now}
	}
	switch v := r.View; {
	case w.Tap == nil:
		v.tap = nil
	case v.tap == nil:
		v.tap = &tap{Tap: *w.Tap, pop: r.pop}
	default:
		v.tap.Tap = *w.Tap
	}
}

// report is what the worker shows now. It is valid until something is decided.
func (r *Reporter) report(now lease.Millis, self Self) *wire.ReportRequest {
	m := &r.request
	*m = wire.ReportRequest{
		Protocol: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax,
		Holder: r.pop.Holder[:], Worker: r.pop.Number, Pop: r.cfg.PoP, Region: r.cfg.Region, Member: r.member(now, self),
		Keys: m.Keys[:0], Denied: m.Denied[:0], Rules: m.Rules[:0], Decisions: m.Decisions[:0],
	}
	if r.rules.InForce == nil {
		return m
	}
	m.Rules = r.rules.Uses(m.Rules, now)
	if v := r.View; v != nil {
		m.Keys, m.Denied = r.rates(m.Keys, v.busiest, v.horizon(now)), r.rates(m.Denied, v.rejected, v.horizon(now))
		if v.tap != nil {
			m.Decisions = decisions(m.Decisions, now, v.tap)
		}
	}
	return m
}

func (r *Reporter) member(now lease.Millis, self Self) wire.Member {
	since := func(t lease.Millis) uint64 { return uint64(max(now-t, 0)) }
	m := wire.Member{
		Version: self.Version, RulesVersion: r.rules.Version, RulesRevision: rule.Number(r.rules.Revision),
		AgeMs: since(r.started), Keys: uint64(self.Keys), Places: uint64(self.Places),
		DegradedMs: uint64(r.uplink.Degraded(now)), Error: r.problem, ReservePerMille: uint32(r.uplink.Share),
	}
	if r.rules.InForce != nil {
		m.RulesAgeMs = since(r.rules.Since)
	}
	if r.problem != "" {
		m.ErrorAgeMs = since(r.problemAt)
	}
	return m
}

// rates appends the keys of a sketch that come most. What belongs to rules that are gone, or whose keys
// do not show by now, is left out.
func (r *Reporter) rates(dst []wire.KeyRate, s *topkeys.Sketch, horizon lease.Millis) []wire.KeyRate {
	r.top = s.Top(r.top[:0])
	for _, k := range r.top[:min(len(r.top), shownKeys)] {
		p := r.rules.InForce.ByID[k.Rule]
		if p == nil || p.Rule.HideKeys {
			continue
		}
		rule, override := names(p, k.Own)
		dst = append(dst, wire.KeyRate{Rule: rule, Override: override, Key: k.Text, Count: perSecond(k.Count, horizon), Over: perSecond(k.Over, horizon)})
	}
	return dst
}

// perSecond is a count as a rate, rounded up, so that bounds hold.
func perSecond(count uint64, horizon lease.Millis) uint64 {
	h := uint64(max(horizon, 1))
	return (count*1000 + h - 1) / h
}

// names are that of the rule, and of the override of a key with this limit of its own; empty: there is none.
func names(p *rulebook.Policy, own int64) (rule, override string) {
	_, name := p.Own(own)
	rule, override, _ = strings.Cut(name, "/")
	return rule, override
}

// decisions appends what was tapped since the last report, which begins anew.
func decisions(dst []wire.Decision, now lease.Millis, t *tap) []wire.Decision {
	for i := range t.taken {
		d := &t.taken[i]
		rule, override := names(d.Policy, d.Own)
		dst = append(dst, wire.Decision{
			Rule: rule, Override: override, Key: d.text[:d.size], Outcome: d.outcome,
			Remaining: uint64(min(max(d.Remaining, 0), wire.MaxUnits)), RetryAfterMs: uint64(max(d.Retry, 0)),
			AgeMs: uint64(max(now-d.at, 0)),
		})
	}
	t.taken, t.seen = t.taken[:0], 0
	return dst
}
