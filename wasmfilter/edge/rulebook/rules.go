package rulebook

import (
	"cmp"
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Records in the store of the PoP, see package pop.
var (
	keyRules    = []byte("rules2")    // generation, revision, whether bundled, compiled form
	keyRulesTag = []byte("rulestag2") // rulesTag
	keyRejected = []byte("rejected")  // rejection
)

// fetchSoonest is the least time between two fetches of the rules, by whichever worker.
const fetchSoonest lease.Millis = 250

// Rulebook is the rules in force: bundled with the plugin configuration, or of the
// region. All workers share them, with an order of versions and a list of those that
// cannot be used. The owner makes the fetches that its methods ask for.
type Rulebook struct {
	InForce  *Policies // nil: there are none
	Version  string    // of these; empty if there are none
	Revision uint64    // of these, as the worker last read it of the shared record
	// Since is when these came into force. Denials that were asked for before are void.
	Since lease.Millis
	// Error is what is wrong with the configuration or with rules that were offered;
	// empty if nothing. What was in force before stays in force.
	Error string

	cfg    *Config
	pop    *pop.PoP
	leader *pop.Leader
	counts map[string]*RuleCounts
	secret *rule.Secret // nil: there is none

	equip   func(*Policy)
	changed func()

	generation uint64       // of what is in force, in the store
	bundled    bool         // what is in force is, by the shared record
	sawAt      lease.Millis // when a reply last named the rules of the region
}

// New returns a rulebook without rules. equip completes a policy that is compiled, and
// changed is called when other rules are in force.
func New(cfg *Config, pop *pop.PoP, leader *pop.Leader, equip func(*Policy), changed func()) *Rulebook {
	return &Rulebook{
		Error: cfg.Error,
		cfg:   cfg, pop: pop, leader: leader, counts: map[string]*RuleCounts{},
		equip: equip, changed: changed,
	}
}

// CountsOf returns the counters of a rule, or those of RULE.override.NAME.
func (b *Rulebook) CountsOf(name string) *RuleCounts {
	c := b.counts[name]
	if c == nil {
		c = &RuleCounts{}
		b.counts[name] = c
	}
	return c
}

// EachRule calls f with the counters of every rule that was ever in force, and of its overrides with
// a name, see [Rulebook.CountsOf].
func (b *Rulebook) EachRule(f func(name string, c *RuleCounts)) {
	for name, c := range b.counts {
		f(name, c)
	}
}

// Age is how long the rules in force have been that at this PoP, 0 if there are none.
func (b *Rulebook) Age(now lease.Millis) lease.Millis {
	if b.InForce == nil {
		return 0
	}
	return max(now-b.Since, 0)
}

// Start puts rules into force at the start: those that other workers have, or
// those bundled with the plugin configuration, or none. Bundled rules that have
// changed replace those of an earlier configuration, but not those of the region. It
// reports whether the worker should fetch those of the region.
func (b *Rulebook) Start(now lease.Millis) (fetch bool) {
	if b.load() {
		tag, _ := b.tag()
		if b.cfg.Rules == nil || !tag.bundled || b.cfg.Rules.Version == b.Version {
			return false
		}
	}
	if b.cfg.Rules != nil {
		b.publish(now, b.cfg.Rules, 0, true)
	}
	return b.claimFetch(now, b.every())
}

// every is how often the rules are fetched: soon again while there are none,
// since the worker that asked first may be one that Envoy throws away after it has
// tried the configuration out.
func (b *Rulebook) every() lease.Millis {
	if b.InForce == nil {
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

func (b *Rulebook) tag() (tag rulesTag, version uint32) {
	var r [5]uint64
	version = b.pop.Record(keyRulesTag, r[:])
	return rulesTag{r[0], lease.Millis(r[1]), lease.Millis(r[2]), r[3] != 0, r[4]}, version
}

func (b *Rulebook) setTag(version uint32, t rulesTag) bool {
	return b.pop.SetRecord(keyRulesTag, version, t.generation, uint64(t.since), uint64(t.fetched), limit.Bit(t.bundled), t.revision)
}

// updateTag changes the record; change returns false to leave it.
func (b *Rulebook) updateTag(change func(*rulesTag) bool) {
	for range table.Tries {
		tag, version := b.tag()
		if !change(&tag) || b.setTag(version, tag) {
			return
		}
	}
}

// Newest reports whether the rules of this worker are those in force. It is called
// after an entry was read whose rule this worker does not have. Newer rules are
// announced before any worker decides by them; so the rule is gone if they are.
func (b *Rulebook) Newest() bool {
	tag, _ := b.tag()
	return tag.generation == b.generation
}

// Watch swaps the rules when another worker has put newer ones into force. It reports
// whether the worker should fetch those of the region, because no reply has named them
// for a while.
func (b *Rulebook) Watch(now lease.Millis) (fetch bool) {
	b.clearError(now)
	tag := b.catchUp()
	if b.InForce != nil && b.InForce.Hashes {
		b.loadSecret()
	}
	every := b.every()
	if b.sawAt > 0 && now < b.sawAt+every/2 && now-tag.fetched >= every/2 && b.InForce != nil && !b.bundled {
		// Replies have named the region's rules: there is no need to fetch them.
		b.updateTag(func(t *rulesTag) bool { t.fetched = max(t.fetched, b.sawAt); return true })
		return false
	}
	return now-tag.fetched >= b.pop.Jitter().Of(every) && !b.leader.Fenced() && b.claimFetch(now, every*9/10)
}

// claimFetch makes this worker the one that fetches the rules, unless some worker did
// within the last least milliseconds.
func (b *Rulebook) claimFetch(now, least lease.Millis) bool {
	tag, version := b.tag()
	if version != table.Absent && tag.fetched != 0 && now-tag.fetched < least {
		return false
	}
	tag.fetched = now
	return b.setTag(version, tag)
}

// catchUp puts into force what other workers have put into force.
func (b *Rulebook) catchUp() rulesTag {
	tag, _ := b.tag()
	if tag.generation != b.generation {
		b.load()
	} else {
		b.adopt(tag)
	}
	return tag
}

// adopt takes over what the workers agree on about the rules in force.
func (b *Rulebook) adopt(tag rulesTag) {
	b.Revision, b.bundled = tag.revision, tag.bundled
	if tag.generation == b.generation { // load may have come before the announcement
		b.Since = tag.since
	}
}

// The rules in the store: their generation, their revision, 1 if they are bundled ones,
// and the compiled form.
const rulesHeader = 3 * 8

func encodeRules(generation, revision uint64, bundled bool, set *rule.Set) []byte {
	raw := make([]byte, 0, rulesHeader+len(set.Encode()))
	raw = binary.LittleEndian.AppendUint64(raw, generation)
	raw = binary.LittleEndian.AppendUint64(raw, revision)
	raw = binary.LittleEndian.AppendUint64(raw, limit.Bit(bundled))
	return append(raw, set.Encode()...)
}

// load puts the rules in the store into force. False if there are none, or none that
// can be read.
func (b *Rulebook) load() bool {
	raw, _, ok := b.pop.Store.Get(keyRules)
	if !ok || len(raw) < rulesHeader {
		return false
	}
	generation := binary.LittleEndian.Uint64(raw)
	set, err := read.JSON(raw[rulesHeader:])
	if err != nil {
		b.Error = "rules in shared data: " + err.Error()
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
func (b *Rulebook) use(set *rule.Set, generation uint64, since lease.Millis) {
	if b.InForce == nil || b.Version != set.Version {
		b.InForce, b.Version = b.compile(set), set.Version
		b.changed()
	}
	b.generation, b.Since = generation, since
	b.Error = b.cfg.Error
}

// publish puts rules into force for all workers.
func (b *Rulebook) publish(now lease.Millis, set *rule.Set, revision uint64, bundled bool) {
	var generation uint64 // 0: nothing could be stored; the next fetch tries again
	for range table.Tries {
		raw, version, ok := b.pop.Store.Get(keyRules)
		var stored uint64
		if !ok {
			version = table.Absent
		} else if len(raw) >= 8 {
			stored = binary.LittleEndian.Uint64(raw)
		}
		if stored > b.generation && b.load() && !bundled && !b.newer(set.Version, revision) {
			return // another worker was faster, with rules at least as new
		}
		if b.pop.Store.Set(keyRules, encodeRules(stored+1, revision, bundled, set), version) == table.Stored {
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
	b.Revision, b.bundled = revision, bundled
}
