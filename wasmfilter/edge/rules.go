package edge

import (
	"cmp"
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// rulebook is the rules in force: bundled with the plugin configuration, or of the
// region. All workers share them, with an order of versions and a list of those that
// cannot be used.
type rulebook struct {
	cfg    *Config
	port   *Port
	pop    *pop
	leader *leader
	counts map[string]*RuleCounts

	equip   func(*policy) // completes a policy that is compiled
	changed func()        // other rules are in force

	inForce    *policies    // nil: there are none
	version    string       // of these; empty if there are none
	generation uint64       // of what is in force, in the store
	since      lease.Millis // denials that were asked for before are void
	// What the worker last read of the shared record of rules, see rulesTag.
	revision uint64
	bundled  bool

	sawAt   lease.Millis // when a reply last named the rules of the region
	fetches []uint64     // calls for the rules that have not ended
}

// countsOf returns the counters of a rule.
func (b *rulebook) countsOf(name string) *RuleCounts {
	c := b.counts[name]
	if c == nil {
		c = &RuleCounts{}
		b.counts[name] = c
	}
	return c
}

// start puts rules into force at the start: those that other workers have, or
// those bundled with the plugin configuration, or none. Bundled rules that have
// changed replace those of an earlier configuration, but not those of the region.
func (b *rulebook) start(now lease.Millis) {
	if b.load() {
		tag, _ := b.tag()
		if b.cfg.Rules == nil || !tag.bundled || b.cfg.Rules.Version == b.version {
			return
		}
	}
	if b.cfg.Rules != nil {
		b.publish(now, b.cfg.Rules, 0, true)
	}
	b.fetch(now, b.every())
}

// every is how often the rules are fetched: soon again while there are none,
// since the worker that asked first may be one that Envoy throws away after it has
// tried the configuration out.
func (b *rulebook) every() lease.Millis {
	if b.inForce == nil {
		return fetchSoonest
	}
	return b.cfg.RulesEvery
}

// rulesTag is the record by which workers see that others have newer rules.
type rulesTag struct {
	generation uint64       // of the rules in force
	since      lease.Millis // when they came into force
	fetched    lease.Millis // when any were last asked for
	bundled    bool         // those in force are bundled ones
	revision   uint64       // of those in force; 0: they have no order
}

func (b *rulebook) tag() (tag rulesTag, version uint32) {
	var r [5]uint64
	version = b.pop.record64(keyRulesTag, r[:])
	return rulesTag{r[0], lease.Millis(r[1]), lease.Millis(r[2]), r[3] != 0, r[4]}, version
}

func (b *rulebook) setTag(version uint32, t rulesTag) bool {
	return b.pop.setRecord64(keyRulesTag, version, t.generation, uint64(t.since), uint64(t.fetched), word(t.bundled), t.revision)
}

// updateTag changes the record; change returns false to leave it.
func (b *rulebook) updateTag(change func(*rulesTag) bool) {
	for range table.Tries {
		tag, version := b.tag()
		if !change(&tag) || b.setTag(version, tag) {
			return
		}
	}
}

// newest reports whether the rules of this worker are those in force. It is called
// after an entry was read whose rule this worker does not have. Newer rules are
// announced before any worker decides by them; so the rule is gone if they are.
func (b *rulebook) newest() bool {
	tag, _ := b.tag()
	return tag.generation == b.generation
}

// watch swaps the rules when another worker has put newer ones into force, and
// fetches them from the region where no reply has named them for a while.
func (b *rulebook) watch(now lease.Millis) {
	b.forgive(now)
	tag := b.catchUp()
	every := b.every()
	if b.sawAt > 0 && now < b.sawAt+every/2 && now-tag.fetched >= every/2 && b.inForce != nil && !b.bundled {
		// Replies have named the region's rules: there is no need to fetch them.
		b.updateTag(func(t *rulesTag) bool { t.fetched = max(t.fetched, b.sawAt); return true })
		return
	}
	if now-tag.fetched >= every*b.pop.jitter()/100 && !b.leader.fenced() {
		b.fetch(now, every*9/10)
	}
}

// catchUp puts into force what other workers have put into force.
func (b *rulebook) catchUp() rulesTag {
	tag, _ := b.tag()
	if tag.generation != b.generation {
		b.load()
	} else {
		b.adopt(tag)
	}
	return tag
}

// adopt takes over what the workers agree on about the rules in force.
func (b *rulebook) adopt(tag rulesTag) {
	b.revision, b.bundled = tag.revision, tag.bundled
	if tag.generation == b.generation { // load may have come before the announcement
		b.since = tag.since
	}
}

// The rules in the store: their generation, their revision, 1 if they are bundled ones,
// and the compiled form.
const rulesHeader = 3 * 8

func encodeRules(generation, revision uint64, bundled bool, set *rule.Set) []byte {
	raw := make([]byte, 0, rulesHeader+len(set.Encode()))
	raw = binary.LittleEndian.AppendUint64(raw, generation)
	raw = binary.LittleEndian.AppendUint64(raw, revision)
	raw = binary.LittleEndian.AppendUint64(raw, word(bundled))
	return append(raw, set.Encode()...)
}

// load puts the rules in the store into force. False if there are none, or none that
// can be read.
func (b *rulebook) load() bool {
	raw, _, ok := b.pop.store.Get(keyRules)
	if !ok || len(raw) < rulesHeader {
		return false
	}
	generation := binary.LittleEndian.Uint64(raw)
	set, err := read.JSON(raw[rulesHeader:])
	if err != nil {
		b.port.ConfigError = "rules in shared data: " + err.Error()
		return false
	}
	tag, _ := b.tag()
	b.use(set, generation, tag.since)
	if tag.generation != generation { // the worker that put them there has not announced them yet
		tag.revision, tag.bundled = binary.LittleEndian.Uint64(raw[8:]), raw[16] != 0
	}
	b.adopt(tag)
	return true
}

// use swaps the rules of this worker. Requests that wait finish under the rules
// that they were matched with.
func (b *rulebook) use(set *rule.Set, generation uint64, since lease.Millis) {
	if b.inForce == nil || b.version != set.Version {
		b.inForce, b.version = b.compile(set), set.Version
		b.changed()
	}
	b.generation, b.since = generation, since
	b.port.ConfigError = b.cfg.Error
}

// publish puts rules into force for all workers.
func (b *rulebook) publish(now lease.Millis, set *rule.Set, revision uint64, bundled bool) {
	var generation uint64 // 0: nothing could be stored; the next fetch tries again
	for range table.Tries {
		raw, version, ok := b.pop.store.Get(keyRules)
		var stored uint64
		if !ok {
			version = table.Absent
		} else if len(raw) >= 8 {
			stored = binary.LittleEndian.Uint64(raw)
		}
		if stored > b.generation && b.load() && !bundled && !b.newer(set.Version, revision) {
			return // another worker was faster, with rules at least as new
		}
		if b.pop.store.Set(keyRules, encodeRules(stored+1, revision, bundled, set), version) == table.Stored {
			generation = stored + 1
			b.updateTag(func(t *rulesTag) bool {
				if t.generation >= generation {
					return false
				}
				t.generation, t.since, t.revision, t.bundled = generation, now, revision, bundled
				return true
			})
			break
		}
	}
	b.use(set, cmp.Or(generation, b.generation), now)
	b.revision, b.bundled = revision, bundled
}
