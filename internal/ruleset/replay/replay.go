// Package replay applies rules to the requests of an access log, each at the time of its line, with the limiter of package exact. It also
// finds limits that most keys of a log never reach.
//
//	log.go      lines, in the order of their time; unknown.go: the rules that apply to their requests
//	replay.go   the run; report.go: the result
//	suggest.go  limits for the keys of a log; peak.go: the peak of a key in a period
//	sample.go   bounded memory of keys
package replay

import (
	"cmp"
	"io"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/exact"
	"github.com/weirlimit/weir/wasmfilter/edge/topkeys"
)

// Config is how a log is replayed.
type Config struct {
	Rules  *rule.Set // required
	Region string    // of the PoP; empty: what the line states
	// MaxKeys bounds the keys that are counted, some 250 bytes each, the streams that last, and the keys that a report counts,
	// of all rules together; 0: a million.
	MaxKeys int
}

// player is a run.
type player struct {
	set     *rule.Set
	limiter *exact.Limiter
	report  Report
	seen    sample[bool]      // keys, and whether they were denied
	top     []*topkeys.Sketch // by rule; nil: nothing was denied
}

// Run replays a log, which may be compressed by gzip.
func Run(log io.Reader, c Config) (*Report, error) {
	most := cmp.Or(c.MaxKeys, 1<<20)
	p := &player{set: c.Rules, limiter: exact.New(c.Rules, most), seen: sample[bool]{most: most}, top: make([]*topkeys.Sketch, c.Rules.Len())}
	for i := range c.Rules.Len() {
		p.report.Rules = append(p.report.Rules, Rule{Rule: c.Rules.Rule(i).Name, Mode: c.Rules.Rule(i).Mode.String()})
	}
	r := reader{decider: newDecider(c)}
	if err := r.each(log, p.play); err != nil {
		return nil, err
	}
	p.finish(&r)
	return &p.report, nil
}

// play decides a request, and counts it.
func (p *player) play(e *entry) {
	denied := p.limiter.Decide(e.at, e.lasts, e.hits) >= 0
	r := &p.report
	if r.Until = time.UnixMicro(int64(e.at)).UTC(); r.Requests == 0 {
		r.From = r.Until
	}
	r.Requests++
	add(&r.Denied, denied)
	add(&r.Admitted, !denied)
	r.Rate.add(e.at, denied)
	uncounted := false
	for i := range e.hits {
		uncounted = uncounted || e.hits[i].Uncounted
		p.count(&e.hits[i], e.hashes[i], denied)
	}
	add(&r.Uncounted, uncounted)
}

// count counts a rule that applies to a request.
func (p *player) count(h *exact.Hit, hash uint64, denied bool) {
	r := &p.report.Rules[h.Rule]
	r.Matched++
	add(&r.Admitted, !denied)
	k := sampled{h.Rule, hash}
	if was, known := p.seen.of[k]; p.seen.has(hash) && (!known || h.Denied && !was) {
		p.seen.put(k, h.Denied)
	}
	if !h.Denied {
		return
	}
	r.Denied++
	if p.top[h.Rule] == nil {
		p.top[h.Rule] = topkeys.New()
	}
	p.top[h.Rule].Add(hash, 0, 0, []byte(h.Key))
}
