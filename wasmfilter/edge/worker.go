package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Worker is one worker thread's part of a PoP. Create it with [New].
type Worker struct {
	// Calls are to be made, in order; whoever makes them empties the list. Each
	// ends in exactly one of Reply and Failed, which may add others.
	Calls []Call
	// Decided are the requests that waited and have a verdict now; whoever resumes
	// them empties the list.
	Decided []*Request
	// ConfigError says what is wrong with the configuration or with rules that
	// were offered; empty if nothing. What was in force before stays so.
	ConfigError string
	// AnswerError says what is wrong with an answer of the region that could not
	// be used; whoever tells the operator empties it.
	AnswerError string
	Counts      Counts
	// Trace returns the traceparent of the request that is being decided; it is
	// called when the request begins to wait. nil: there is none.
	Trace func() string

	cfg   Config
	store table.Store
	// number names this worker among all that ever lived, at random.
	number uint64
	random uint64 // of jitter
	// wall is what has to be added to the monotonic clock to get the time of day.
	wall limit.Micros

	identity
	sequence
	generation uint64 // of the plugin configuration, see background.go
	rules      *policies
	rulesGen   uint64       // of what is in force, in the store
	rulesSince lease.Millis // denials that were asked for before are void
	// What the worker last saw of the shared record of rules, see rulesTag.
	rulesRevision uint64
	rulesBundled  bool
	ordered       lease.Millis
	rulesHeard    lease.Millis // when a reply last told this worker of the region's rules
	ruleCounts    map[string]*RuleCounts
	leader        bool
	// decidedLately is true if the worker has decided requests since the last tick:
	// it has better things to do than to lead.
	decidedLately bool
	scanned       int // next page to look through
	sweptSlots    int // and of the slots

	enforced, shadow *table.Table
	slots            *table.Pool
	shadowSlots      *table.Pool
	denials          *denials
	shadowDenials    *denials // apart, like all that shadow rules touch
	matches          rule.Matches
	lines            []*line
	asks             map[uint64]*ask // by hash of the key
	holdings         map[uint64]*holding
	parked           []parked
	holders          int // of the region, by its last reply; 0: unknown
	waiting          []*Request
	calls            map[uint64]*call
	lastCall         uint64
	spareAsks        []*ask
	request          wire.Request
	size             int // at most so many bytes of it are encoded
	response         wire.Response
}

// New returns a worker. Entropy is six words of real randomness. A worker always
// starts: with a configuration that was refused cfg is the last good one, or the
// zero Config.
func New(cfg Config, store table.Store, entropy [6]uint64, now lease.Millis, wall limit.Micros) *Worker {
	w := &Worker{
		cfg:           cfg.withDefaults(),
		store:         store,
		number:        entropy[4] | 1,
		random:        entropy[5] | 1,
		denials:       &denials{},
		shadowDenials: &denials{},
		ruleCounts:    map[string]*RuleCounts{},
		asks:          map[uint64]*ask{},
		holdings:      map[uint64]*holding{},
		calls:         map[uint64]*call{},
	}
	w.ConfigError = cfg.Error
	w.SetClock(now, wall)
	w.join(entropy)
	w.caller = w.number
	w.readEpoch()
	w.enforced = table.New(store, enforcedTable, w.cfg.PagesLog2, w.idle)
	w.shadow = table.New(store, shadowTable, w.cfg.PagesLog2, w.idle)
	w.slots = table.NewPool(store, slotsTable)
	w.shadowSlots = table.NewPool(store, shadowSlotsTable)
	w.startRules(now)
	w.enlist(now)
	return w
}

// SetClock tells which time of day it is at now; at least once a minute.
func (w *Worker) SetClock(now lease.Millis, wall limit.Micros) {
	w.wall = wall - limit.Micros(now)*limit.Millisecond
}

// Wall is the time of day at now.
func (w *Worker) Wall(now lease.Millis) limit.Micros {
	return limit.Micros(now)*limit.Millisecond + w.wall
}

// Inputs returns what the rules in force look at; nil if there are no rules.
func (w *Worker) Inputs() *rule.Inputs {
	if w.rules == nil {
		return nil
	}
	return w.rules.set.Inputs()
}

// RulesVersion returns the version of the rules in force, empty if there are none.
func (w *Worker) RulesVersion() string {
	if w.rules == nil {
		return ""
	}
	return w.rules.set.Version
}

// Tables returns what happened in the tables since the last call.
func (w *Worker) Tables() table.Counts {
	a, b := &w.enforced.Counts, &w.shadow.Counts
	sum := table.Counts{
		Races:   a.Races + b.Races,
		Full:    a.Full + b.Full,
		Evicted: a.Evicted + b.Evicted,
		Merged:  a.Merged + b.Merged,
		Corrupt: a.Corrupt + b.Corrupt,
	}
	*a, *b = table.Counts{}, table.Counts{}
	return sum
}

// jitter returns 90 to 110: percent, for everything periodic.
func (w *Worker) jitter() lease.Millis { return 90 + lease.Millis(w.rand()%21) }

// rand is xorshift64*: enough to keep workers out of step.
func (w *Worker) rand() uint64 {
	w.random ^= w.random >> 12
	w.random ^= w.random << 25
	w.random ^= w.random >> 27
	return w.random * 0x2545f4914f6cdd1d >> 32
}

// parked is a change of a slot that could not be written. Only what adds units may
// be late; it is tried again at every tick.
type parked struct {
	policy *policy
	key    table.Key
	change func(*table.Entry)
}

// parkedMost bounds what is parked; more is lost, and wastes units until they
// lapse above.
const parkedMost = 4096

// change changes a key's entry; if that cannot be written now it is parked. change
// may be called several times; what it did the last time counts. The outcome is
// Raced or Failed if it is parked, Full if the entry found no room and nothing
// happened.
func (w *Worker) change(now lease.Millis, p *policy, key table.Key, change func(*table.Entry)) table.Outcome {
	outcome := w.tryChange(now, p, key, change)
	if outcome == table.Stored || outcome == table.Full || len(w.parked) >= parkedMost {
		return outcome
	}
	w.Counts.Parked++
	key.Text = append([]byte(nil), key.Text...)
	w.parked = append(w.parked, parked{p, key, change})
	return outcome
}

func (w *Worker) tryChange(now lease.Millis, p *policy, key table.Key, change func(*table.Entry)) (outcome table.Outcome) {
	for range table.Tries {
		change(w.open(p, key))
		if outcome = p.table.Commit(now); outcome != table.Raced {
			break
		}
	}
	return outcome
}

// open reads a key's entry. Denials of earlier rules do not stand any more.
func (w *Worker) open(p *policy, key table.Key) *table.Entry {
	if p.local() {
		e, _ := p.table.OpenShared(key)
		return e
	}
	e := p.table.Open(key)
	if e.Asked < w.rulesSince {
		e.DeniedNeed, e.Refused, e.LimitedUntil, e.NextAsk, e.Back = 0, false, 0, 0, lease.Backoff{}
	}
	return e
}

// settleParked tries again what could not be written before.
func (w *Worker) settleParked(now lease.Millis) {
	kept := w.parked[:0]
	for _, c := range w.parked {
		if o := w.tryChange(now, c.policy, c.key, c.change); o == table.Raced || o == table.Failed {
			kept = append(kept, c)
		}
	}
	clear(w.parked[len(kept):])
	w.parked = kept
}
