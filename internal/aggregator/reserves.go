package aggregator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Why an aggregator does not decide: for its health, and for callers.
const (
	storeAway   = "the store with the counters does not answer: calls of regions are rejected, so that they go on with another aggregator or by their reserves"
	clockBehind = "the clock of the store with the counters is behind the time that regions were told: calls of regions are rejected until it has passed that; set the clocks of the store's machines, by NTP such as chrony"
	noRules     = "no rules are in force yet: calls of regions are rejected, so that they go on with another aggregator or by their reserves"
	tableLost   = "nothing is known of what regions may use of their reserves: waiting a second for them to state it"
)

const (
	// recallFor is for how long an aggregator whose table was lost waits for the regions.
	recallFor = limit.Second
	// sameFor is how long a statement that says the same again changes nothing.
	sameFor = limit.Second / 4
)

// reserves is what this aggregator knows of the reserves of regions: a copy of the table that it shares with other
// aggregators through a cell, and what regions have stated since. It is safe for concurrent use.
type reserves struct {
	config Config
	wake   chan struct{} // an exchange is due before its time

	exchanges sync.Mutex // one exchange at a time
	mu        sync.Mutex
	shares    map[string]reserve.PerMille // by the rules; nil: there are none yet
	// The cell as it was last exchanged, if it is known: the bytes, and the table in them or what takes its place.
	known  bool
	raw    []byte
	stored reserve.Shares
	synced limit.Micros // when the last exchange began that succeeded, by the steady clock; 0: none did
	ahead  limit.Micros // by so much the store's clock is ahead of the steady one
	recall limit.Micros // the table was lost: nothing is decided before this, unless all regions were heard; 0: it was not

	table   reserve.Shares               // stored, and what was stated since
	stated  map[string]reserve.Statement // since
	speaks  map[string]*speaker
	dead    map[string]bool // to be taken out with the next exchange
	reason  string          // why it does not decide, as was reported last
	smaller engine.Parts    // policies without what is withheld

	withheldOf *telemetry.GaugeVec
}

// speaker is what is kept of a region's calls.
type speaker struct {
	last  reserve.Statement
	heard limit.Micros // when, by the steady clock
	// asked is when the record first stated that it knows of no share, by the steady clock; 0: it does know.
	asked             limit.Micros
	withheld          bool // as was reported last
	rejected, unknown repeat.OncePerMinute
}

// undecided rejects a call of a region as a whole: for the region it is as if nobody had answered.
func undecided(reason string) error { return errors.New("nothing can be decided: " + reason) }

// setRegions replaces the regions that have shares by the rules: whole thousandths, rounded down.
func (r *reserves) setRegions(rs rule.Regions) {
	shares := make(map[string]reserve.PerMille, len(rs))
	for _, one := range rs {
		shares[one.Name] = reserve.PerMille(rs.Share(one.Name, int64(reserve.Whole)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shares = shares
	r.due()
}

// due makes the next exchange come at once. r.mu is locked.
func (r *reserves) due() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// time is the aggregator's time, and why it does not decide; empty: it does. r.mu is locked.
func (r *reserves) time(now limit.Micros) (at limit.Micros, reason string) {
	at, decides := r.table.Time(now + r.ahead)
	switch {
	case r.shares == nil: // whoever issued by these would take the shares of all
		return at, noRules
	case r.synced == 0, !r.config.Alone && now-r.synced > reserve.Ahead/2:
		return at, storeAway
	case !decides:
		return at, clockBehind
	case r.recall > now && !r.allHeard():
		return at, tableLost
	}
	return at, ""
}

// allHeard reports whether every region that has a share was heard. r.mu is locked.
func (r *reserves) allHeard() bool {
	for name := range r.shares {
		if one := r.speaks[name]; one == nil || one.heard == 0 || one.heard < r.recall-recallFor {
			return false
		}
	}
	return true
}

// Heard takes what a region states with a call, before the call is decided; nil: it states nothing. The reply is nil
// where there is nothing to say yet. An error rejects the whole call.
func (s *Store) Heard(region string, st *reserve.Statement) (*reserve.Reply, error) {
	r := &s.reserves
	if r.config.Cell == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.config.Steady()
	at, reason := r.time(now)
	if reason != "" && reason != tableLost {
		return nil, undecided(reason)
	}
	if st != nil {
		if err := r.hear(now, at, region, st); err != nil {
			return nil, err
		}
		at, reason = r.time(now)
	}
	if reason != "" {
		return nil, undecided(reason)
	}
	if one := r.speaks[region]; st == nil || one != nil && one.asked >= r.synced && one.asked > 0 {
		return nil, nil
	}
	reply := r.table.Reply(region, st.ID, at)
	return &reply, nil
}

// hear takes a statement into the copy of the table. r.mu is locked.
func (r *reserves) hear(now, at limit.Micros, region string, st *reserve.Statement) error {
	_, has := r.shares[region]
	_, known := r.table.Regions[region]
	one := r.speaks[region]
	if one == nil && (has || known) {
		one = new(speaker)
		r.speaks[region] = one
	}
	if one != nil && now-one.heard < sameFor && same(&one.last, st) {
		return nil
	}
	next, _, err := r.table.Heard(region, *st, at, r.shares[region])
	if err != nil {
		r.reject(one, region, err)
		return err
	}
	r.table = next
	if one == nil {
		return nil
	}
	if st.No != 0 {
		one.asked = 0
	} else if one.asked == 0 || one.last.ID != st.ID {
		one.asked = now
	}
	one.last, one.heard = *st, now
	r.stated[region] = *st
	if _, changes := next.Issued(region, r.shares[region], at); changes || one.asked == now {
		r.due()
	}
	return nil
}

func same(a, b *reserve.Statement) bool {
	return a.ID == b.ID && a.Until == b.Until && a.No == b.No && a.Part == b.Part && slices.Equal(a.Used, b.Used)
}

// reject logs a statement that is rejected.
func (r *reserves) reject(one *speaker, region string, err error) {
	if one != nil && !one.rejected.Now() {
		return
	}
	switch impossible := new(reserve.StatementError); {
	case errors.As(err, &impossible):
		r.config.Log.Error("region stated an impossible reserve; its calls are rejected", "region", region, "reason", err,
			"remedy", "see that it calls aggregators on one store alone; if the time of that store was wrong, see the runbook WeirAggregatorUndecided")
	case errors.Is(err, reserve.ErrOtherRecord):
		r.config.Log.Error("two stores use one region name; the calls of the second are rejected", "region", region, "remedy", err)
	default:
		r.config.Log.Error("region rejected", "region", region, "reason", err)
	}
}

// die takes a region out of the table with the next exchange.
func (r *reserves) die(region string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, there := r.table.Regions[region]
	if !there {
		return fmt.Errorf("no region of this name has a share; known regions: %s",
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(r.table.Regions)), ", "), "none"))
	}
	if at, _ := r.time(r.config.Steady()); at-known.Heard < aliveFor {
		return errors.New("this region called within the last 10 s, so it is not dead; its share must stay withheld")
	}
	r.dead[region] = true
	delete(r.stated, region)
	return nil
}

// aliveFor is how long after its last call a region cannot be declared dead.
const aliveFor = 10 * limit.Second
