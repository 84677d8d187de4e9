package live

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/topkeys"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

const (
	// reportEvery is the least time from one report to the next while somebody watches.
	reportEvery lease.Millis = 1000
	// shareEvery is how much longer somebody watches at least, by an answer, when the other workers are told.
	shareEvery lease.Millis = 500
	// recordEvery is the time from one report for the history to the next.
	recordEvery lease.Millis = 10_000
	// keysEvery is how many times recordEvery there are between reports with keys, on average; chance adds or takes one, so that
	// what comes once a minute is not missed for ever. Busy workers count keys for the last two.
	keysEvery, countKeys = 6, 2
	// quiet is how many decisions in the time of a report a worker makes at most that is not busy.
	quiet = 100
	// shownKeys is how many keys of each kind a report has.
	shownKeys = 100
	// trialTime is for how long keys of rules on trial are counted together.
	trialTime = 3600 * limit.Second
)

// Reporter makes the reports of a worker.
type Reporter struct {
	View *View // of what is decided; nil: nothing is collected

	cfg    *rulebook.Config
	pop    *pop.PoP
	rules  *rulebook.Rulebook
	uplink *uplink.Uplink

	keys      int // in the table, see Tick
	places    int
	started   lease.Millis
	shared    lease.Millis // until when somebody watches, by the last answer to any worker
	watched   bool         // somebody watches
	next      lease.Millis // when a report may be sent to somebody who watches
	problem   string       // the last one; empty: none
	problemAt lease.Millis

	record   lease.Millis // when the next report for the history is due
	waited   int          // so many times recordEvery something was decided and no keys reported
	keysIn   int          // how often that is the case until they are
	reported uint64       // requests that the last report stated, of all rules
	withKeys uint64       // requests that the last report with keys stated
	hour     limit.Micros // of the keys of rules on trial

	request wire.ReportRequest
	top     []topkeys.Key
}

// New returns the reporter of a worker that starts now.
func New(cfg *rulebook.Config, pop *pop.PoP, rules *rulebook.Rulebook, up *uplink.Uplink, now lease.Millis) *Reporter {
	return &Reporter{
		View: newView(now), cfg: cfg, pop: pop, rules: rules, uplink: up, started: now,
		record: now + lease.Millis(pop.UpTo(uint64(recordEvery))), keysIn: 1,
	}
}

// Problem notes what went wrong.
func (r *Reporter) Problem(now lease.Millis, text string) {
	r.problem, r.problemAt = strings.ToValidUTF8(text[:min(len(text), wire.MaxProblem)], ""), now
}

// Tick sends a report if one is due, and begins or ends to collect. keys are those in the fuller of the tables, which have so many
// places; 0: another worker counts.
func (r *Reporter) Tick(now lease.Millis, keys, places int) {
	r.keys, r.places = keys, places
	w := &r.uplink.Watch
	switch until := r.pop.Watched(); {
	case until != r.shared: // once: an answer to this worker may end it
		r.shared, w.Until = until, max(w.Until, until)
	case w.Until >= until+shareEvery:
		r.shared = w.Until
		r.pop.SetWatched(w.Until)
	}
	if watched := now < w.Until; watched != r.watched {
		r.watched = watched
		r.forgetView()
		if !watched {
			*w = uplink.Watch{}
		}
	}
	if !r.watched {
		r.tickRecord(now)
		return
	}
	if now >= r.next && !r.uplink.Reporting() {
		r.next, r.record = now+reportEvery, now+recordEvery
		m := r.report(now)
		r.addKeys(now, m)
		r.send(now, m, true)
		if r.View != nil {
			r.View.decay(now)
		}
	}
	if r.View == nil {
		r.View = newView(now)
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

// tickRecord sends a report for the history if one is due, and anything was decided since the last one.
func (r *Reporter) tickRecord(now lease.Millis) {
	if now < r.record || r.uplink.Reporting() {
		return
	}
	r.record = now + recordEvery
	m := r.report(now)
	sum := requests(m)
	busy := sum > r.reported+quiet
	switch {
	case sum != r.withKeys:
		r.waited++
	case r.View != nil:
		r.View.decayed = now // nothing is in it
	}
	keys := r.waited >= r.keysIn
	if keys {
		r.addKeys(now, m)
		m.KeysMs = uint32(lease.Millis(r.waited) * recordEvery)
	}
	if sum != r.reported || keys || r.uplink.Lost {
		r.send(now, m, keys)
	}
	if keys {
		r.waited, r.keysIn = 0, keysEvery-1+int(r.pop.UpTo(2))
		r.forgetView()
	}
	if r.View == nil && (r.waited >= r.keysIn-countKeys || keys && !busy) {
		r.View = newView(now)
	}
}

// forgetView ends to collect.
func (r *Reporter) forgetView() {
	r.View = nil
	r.request, r.top = wire.ReportRequest{}, nil // they point into the view
}

// requests is how many requests a report states, of all rules.
func requests(m *wire.ReportRequest) (n uint64) {
	for i := range m.Rules {
		n += m.Rules[i].Matched + m.Rules[i].NoKey
	}
	return n
}

// send sends a report, with keys or without. The keys of rules on trial begin anew after the first report of an hour that has them.
func (r *Reporter) send(now lease.Millis, m *wire.ReportRequest, keys bool) {
	r.uplink.SendReport(m)
	r.reported = requests(m)
	if !keys {
		return
	}
	r.withKeys = r.reported
	if hour := r.pop.TimeOfDay(now) / trialTime; hour != r.hour {
		r.hour = hour
		r.rules.ForgetTrials()
	}
}

// report is what the worker shows now. It is valid until something is decided.
func (r *Reporter) report(now lease.Millis) *wire.ReportRequest {
	m := &r.request
	*m = wire.ReportRequest{
		Protocol: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax,
		Holder: r.pop.Holder[:], Worker: r.pop.Number, Pop: r.cfg.PoP, Region: r.cfg.Region, Member: r.member(now),
		Keys: m.Keys[:0], Denied: m.Denied[:0], Rules: m.Rules[:0], Decisions: m.Decisions[:0], Trials: m.Trials[:0],
	}
	if r.rules.InForce != nil {
		m.Rules = r.rules.Uses(m.Rules, now)
	}
	return m
}

// addKeys adds what was collected to a report.
func (r *Reporter) addKeys(now lease.Millis, m *wire.ReportRequest) {
	if r.rules.InForce == nil {
		return
	}
	m.Trials = r.rules.Trials(m.Trials)
	if v := r.View; v != nil {
		m.Keys, m.Denied = r.rates(m.Keys, v.busiest, v.horizon(now)), r.rates(m.Denied, v.rejected, v.horizon(now))
		if v.tap != nil {
			m.Decisions = decisions(m.Decisions, now, v.tap)
		}
	}
}

func (r *Reporter) member(now lease.Millis) wire.Member {
	since := func(t lease.Millis) uint64 { return uint64(max(now-t, 0)) }
	m := wire.Member{
		Version: version.Version, RulesVersion: r.rules.Version, RulesRevision: rule.Number(r.rules.Revision),
		AgeMs: since(r.started), RulesAgeMs: uint64(r.rules.Age(now)), Keys: uint64(r.keys), Places: uint64(r.places),
		DegradedMs: uint64(r.uplink.Degraded(now)), Error: r.problem, ReservePerMille: uint32(r.uplink.Share),
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
