package edge

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// fetchSoonest is the least time between two fetches of the rules, by whichever
	// worker.
	fetchSoonest lease.Millis = 250
	rulesTimeout lease.Millis = 1000
)

// startRules puts rules into force at the start: those that other workers have, or
// those bundled with the plugin configuration, or none. Bundled rules that have
// changed replace those of an earlier configuration, but not those of the region.
func (w *Worker) startRules(now lease.Millis) {
	if w.loadRules() {
		tag, _ := w.rulesTag()
		if w.cfg.Rules == nil || !tag.bundled || w.cfg.Rules.Version == w.RulesVersion() {
			return
		}
	}
	if w.cfg.Rules != nil {
		w.publish(now, w.cfg.Rules, true)
	}
	w.fetchRules(now, w.rulesEvery())
}

// rulesEvery is how often the rules are fetched: soon again while there are none,
// since the worker that asked first may be one that Envoy throws away after it has
// tried the configuration out.
func (w *Worker) rulesEvery() lease.Millis {
	if w.rules == nil {
		return fetchSoonest
	}
	return w.cfg.RulesEvery
}

// rulesTag is the record by which workers see that others have newer rules: their
// generation, since when they are in force, when they were last fetched, and
// whether those in force are bundled ones.
type rulesTag struct {
	generation uint64
	since      lease.Millis
	fetched    lease.Millis
	bundled    bool
}

func (w *Worker) rulesTag() (tag rulesTag, version uint32) {
	var r [4]uint64
	version = w.record64(keyRulesTag, r[:])
	return rulesTag{r[0], lease.Millis(r[1]), lease.Millis(r[2]), r[3] != 0}, version
}

func (w *Worker) setRulesTag(version uint32, t rulesTag) bool {
	bundled := uint64(0)
	if t.bundled {
		bundled = 1
	}
	return w.setRecord64(keyRulesTag, version, t.generation, uint64(t.since), uint64(t.fetched), bundled)
}

// watchRules swaps the rules when another worker has put newer ones into force,
// and fetches them from the region now and then.
func (w *Worker) watchRules(now lease.Millis) {
	tag, _ := w.rulesTag()
	if tag.generation != w.rulesGen {
		w.loadRules()
	}
	if every := w.rulesEvery(); now-tag.fetched >= every*w.jitter()/100 && !w.fenced() {
		w.fetchRules(now, every*9/10)
	}
}

// loadRules puts the rules in the store into force. False if there are none, or
// none that can be read.
func (w *Worker) loadRules() bool {
	raw, _, ok := w.store.Get(keyRules)
	if !ok || len(raw) < 8 {
		return false
	}
	generation := binary.LittleEndian.Uint64(raw)
	set, err := rule.Decode(raw[8:])
	if err != nil {
		w.ConfigError = "rules in shared data: " + err.Error()
		return false
	}
	tag, _ := w.rulesTag()
	w.use(set, generation, tag.since)
	return true
}

// use swaps the rules of this worker. Requests that wait finish under the rules
// that they were matched with.
func (w *Worker) use(set *rule.Set, generation uint64, since lease.Millis) {
	if w.rules == nil || w.rules.set.Version != set.Version {
		w.rules = w.compile(set)
		w.denials.clear()
		w.shadowDenials.clear()
	}
	w.rulesGen, w.rulesSince = generation, since
	w.ConfigError = w.cfg.Error
}

// publish puts rules into force for all workers.
func (w *Worker) publish(now lease.Millis, set *rule.Set, bundled bool) {
	for range table.Tries {
		raw, version, ok := w.store.Get(keyRules)
		var generation uint64
		if !ok {
			version = table.Absent
		} else if len(raw) >= 8 {
			generation = binary.LittleEndian.Uint64(raw)
		}
		next := append(binary.LittleEndian.AppendUint64(nil, generation+1), set.Encode()...)
		if w.store.Set(keyRules, next, version) == table.Stored {
			w.announce(now, generation+1, bundled)
			w.use(set, generation+1, now)
			return
		}
	}
	w.use(set, w.rulesGen, now) // at least here; the next fetch tries again
}

// announce tells the other workers of a generation of rules.
func (w *Worker) announce(now lease.Millis, generation uint64, bundled bool) {
	for range table.Tries {
		tag, version := w.rulesTag()
		if tag.generation >= generation {
			return
		}
		tag.generation, tag.since, tag.bundled = generation, now, bundled
		if w.setRulesTag(version, tag) {
			return
		}
	}
}

// fetchRules asks the region for its rules unless some worker did within the last
// least milliseconds.
func (w *Worker) fetchRules(now, least lease.Millis) {
	tag, version := w.rulesTag()
	if version != table.Absent && tag.fetched != 0 && now-tag.fetched < least {
		return
	}
	tag.fetched = now
	if !w.setRulesTag(version, tag) {
		return // somebody else fetches them
	}
	m := wire.RulesRequest{Protocol: wire.Protocol, HaveVersion: w.RulesVersion(), Pop: w.cfg.PoP}
	c := Call{ID: w.callID(), Path: RulesPath, Body: m.Append(nil), Timeout: rulesTimeout}
	w.calls[c.ID] = &call{sent: now}
	w.Calls = append(w.Calls, c)
}

// rulesReply takes the region's rules. What cannot be used is refused as a whole,
// and what is in force stays so.
func (w *Worker) rulesReply(now lease.Millis, body []byte) {
	var m wire.RulesResponse
	switch err := m.Decode(body); {
	case err != nil:
		w.Counts.Calls[w.malformed(err.Error())]++
		return
	case m.Protocol != wire.Protocol:
		w.Counts.Calls[w.otherVersion(m.Protocol)]++
		return
	}
	w.Counts.Calls[CallAnswered]++
	if len(m.Rules) == 0 {
		w.ConfigError = w.cfg.Error
		return
	}
	set, err := rule.Decode(m.Rules)
	if err != nil {
		w.ConfigError = "rules of the region: " + err.Error()
		return
	}
	w.ConfigError = w.cfg.Error
	if set.Version != w.RulesVersion() {
		w.publish(now, set, false)
	}
}
