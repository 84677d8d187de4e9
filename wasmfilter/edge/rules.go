package edge

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
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
		w.publish(now, w.cfg.Rules, 0, true)
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

// rulesTag is the record by which workers see that others have newer rules.
type rulesTag struct {
	generation uint64       // of the rules in force
	since      lease.Millis // when they came into force
	fetched    lease.Millis // when any were last asked for
	bundled    bool         // those in force are bundled ones
	revision   uint64       // of those in force; 0: they have no order
	ordered    lease.Millis // when a granter was last heard whose rules have an order
}

func (w *Worker) rulesTag() (tag rulesTag, version uint32) {
	var r [6]uint64
	version = w.record64(keyRulesTag, r[:])
	return rulesTag{r[0], lease.Millis(r[1]), lease.Millis(r[2]), r[3] != 0, r[4], lease.Millis(r[5])}, version
}

func (w *Worker) setRulesTag(version uint32, t rulesTag) bool {
	return w.setRecord64(keyRulesTag, version, t.generation, uint64(t.since), uint64(t.fetched), word(t.bundled), t.revision, uint64(t.ordered))
}

// updateRulesTag changes the record; change returns false to leave it.
func (w *Worker) updateRulesTag(change func(*rulesTag) bool) {
	for range table.Tries {
		tag, version := w.rulesTag()
		if !change(&tag) || w.setRulesTag(version, tag) {
			return
		}
	}
}

// watchRules swaps the rules when another worker has put newer ones into force,
// and fetches them from the region where no reply has told of them for a while.
func (w *Worker) watchRules(now lease.Millis) {
	w.forgive(now)
	tag := w.catchUp()
	if w.ordered > tag.ordered+orderedEvery {
		w.updateRulesTag(func(t *rulesTag) bool { t.ordered = max(t.ordered, w.ordered); return true })
	}
	every := w.rulesEvery()
	if w.rulesHeard > 0 && now < w.rulesHeard+every/2 && now-tag.fetched >= every/2 && w.rules != nil && !w.rulesBundled {
		// Replies have told which rules there are: nobody needs to look.
		w.updateRulesTag(func(t *rulesTag) bool { t.fetched = max(t.fetched, w.rulesHeard); return true })
		return
	}
	if now-tag.fetched >= every*w.jitter()/100 && !w.fenced() {
		w.fetchRules(now, every*9/10)
	}
}

// catchUp puts into force what other workers have put into force.
func (w *Worker) catchUp() rulesTag {
	tag, _ := w.rulesTag()
	if tag.generation != w.rulesGen {
		w.loadRules()
	} else {
		w.adopt(tag)
	}
	return tag
}

// adopt takes over what the workers agree on about the rules in force.
func (w *Worker) adopt(tag rulesTag) {
	w.rulesRevision, w.rulesBundled = tag.revision, tag.bundled
	w.ordered = max(w.ordered, tag.ordered)
}

// The rules in the store: their generation, their revision, 1 if they are bundled ones,
// and the compiled form.
const rulesHeader = 3 * 8

func encodeRules(generation, revision uint64, bundled bool, set *rule.Set) []byte {
	b := make([]byte, 0, rulesHeader+len(set.Encode()))
	b = binary.LittleEndian.AppendUint64(b, generation)
	b = binary.LittleEndian.AppendUint64(b, revision)
	b = binary.LittleEndian.AppendUint64(b, word(bundled))
	return append(b, set.Encode()...)
}

func word(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// loadRules puts the rules in the store into force. False if there are none, or
// none that can be read.
func (w *Worker) loadRules() bool {
	raw, _, ok := w.store.Get(keyRules)
	if !ok || len(raw) < rulesHeader {
		return false
	}
	generation := binary.LittleEndian.Uint64(raw)
	set, err := rule.Decode(raw[rulesHeader:])
	if err != nil {
		w.ConfigError = "rules in shared data: " + err.Error()
		return false
	}
	tag, _ := w.rulesTag()
	w.use(set, generation, tag.since)
	if tag.generation != generation { // whoever put them there has not announced them yet
		tag.revision, tag.bundled = binary.LittleEndian.Uint64(raw[8:]), raw[16] != 0
	}
	w.adopt(tag)
	return true
}

// use swaps the rules of this worker. Requests that wait finish under the rules
// that they were matched with.
func (w *Worker) use(set *rule.Set, generation uint64, since lease.Millis) {
	if w.rules == nil || w.rules.set.Version != set.Version {
		w.rules = w.compile(set)
		w.makeRoomIn(w.enforced)
		w.makeRoomIn(w.shadow)
		w.denials.clear()
		w.shadowDenials.clear()
	}
	w.rulesGen, w.rulesSince = generation, since
	w.ConfigError = w.cfg.Error
}

// publish puts rules into force for all workers.
func (w *Worker) publish(now lease.Millis, set *rule.Set, revision uint64, bundled bool) {
	for range table.Tries {
		raw, version, ok := w.store.Get(keyRules)
		var generation uint64
		if !ok {
			version = table.Absent
		} else if len(raw) >= 8 {
			generation = binary.LittleEndian.Uint64(raw)
		}
		if generation > w.rulesGen && w.loadRules() && !bundled && !w.newer(now, set.Version, revision) {
			return // somebody was faster, with rules at least as new
		}
		if w.store.Set(keyRules, encodeRules(generation+1, revision, bundled, set), version) == table.Stored {
			w.announce(now, generation+1, revision, bundled)
			w.use(set, generation+1, now)
			w.rulesRevision, w.rulesBundled = revision, bundled
			return
		}
	}
	w.use(set, w.rulesGen, now) // at least here; the next fetch tries again
	w.rulesRevision, w.rulesBundled = revision, bundled
}

// announce tells the other workers of a generation of rules.
func (w *Worker) announce(now lease.Millis, generation, revision uint64, bundled bool) {
	w.updateRulesTag(func(t *rulesTag) bool {
		if t.generation >= generation {
			return false
		}
		t.generation, t.since, t.revision, t.bundled = generation, now, revision, bundled
		t.ordered = max(t.ordered, w.ordered)
		return true
	})
}
