package table

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// Rank is what it costs to evict an entry, the least first.
type Rank uint8

// The ranks.
const (
	Void    Rank = iota // nothing: it is as good as a new one
	Denial              // an ask, which the region denies again
	Lease               // an ask, and units that go back
	Share               // a share of the holder's own begins anew
	Debt                // units that are never reported
	Counter             // it cannot be forgotten, only counted together with others
	Fixed               // not to be touched
)

// Room is how a table makes room in a page that is full. Its zero value evicts
// what is idle and nothing else.
type Room struct {
	// Rank is what it costs to evict an entry, and which of those of one rank goes
	// first: the one with the least worth. It must not change the entry.
	Rank func(e *Entry, now lease.Millis) (r Rank, worth int64)
	// Merge counts what e has counted in the entry that is shared, too.
	Merge func(shared, e *Entry, now lease.Millis)
	// Gone is called with each entry that was evicted and had units or a debt.
	Gone func(e *Entry)
	// Share is how many places of a page each rule may count on: what it has beyond
	// makes room for rules that have less. What it has within makes room only for
	// other keys of the rule itself.
	Share int
}

// seat is an entry of a page that is full.
type seat struct {
	start int // in the page
	rule  uint32
	rank  Rank
	worth int64
	of    int // how many places its rule has
}

// makeRoom frees a place in the page for the entry that is open. False if none can
// be freed.
func (t *Table) makeRoom(now lease.Millis) bool {
	t.hold()
	before := t.page.count
	var seats [PageEntries]seat
	taken, own := t.survey(now, &seats)
	if taken < before { // idle entries go first, all at once
		t.keep(now, func(e *Entry) bool {
			idle := t.Idle(e, now)
			if idle {
				t.leave(e)
			}
			return !idle
		})
		t.Counts.Evicted += uint64(before - t.page.count)
		return t.page.count < before // Idle may have changed its mind
	}
	victim := t.victim(seats[:taken], own)
	if victim == nil {
		return false
	}
	if victim.rank == Counter {
		return t.merge(now, seats[:taken], victim)
	}
	t.cut(victim.start)
	t.Counts.Evicted++
	return true
}

// survey lists the entries of the page that are not idle, and counts those of the
// rule of the entry that is open.
func (t *Table) survey(now lease.Millis, seats *[PageEntries]seat) (taken, own int) {
	var e Entry
	for at := headerBytes; at < len(t.page.raw) && taken < PageEntries; at += int(t.page.raw[at]) {
		b := t.page.raw[at : at+int(t.page.raw[at])]
		if !e.decode(b, t.page.base) || t.Idle(&e, now) {
			continue
		}
		s := seat{start: at, rule: e.Rule, rank: Fixed}
		if t.Room.Rank != nil && tagOf(b) != sharedTag(e.Rule) {
			s.rank, s.worth = t.Room.Rank(&e, now)
		}
		if s.rule == t.entry.Rule {
			own++
		}
		seats[taken] = s
		taken++
	}
	for i := range seats[:taken] {
		for j := range seats[:taken] {
			if seats[j].rule == seats[i].rule {
				seats[i].of++
			}
		}
	}
	return taken, own
}

// victim picks the entry that makes room for one of a rule that has own places: of
// what can be asked for again that of the rule with the most places, and only for a
// rule that has less than its share one that cannot.
func (t *Table) victim(seats []seat, own int) *seat {
	var best *seat
	for i := range seats {
		s := &seats[i]
		mine, dear := s.rule == t.entry.Rule, s.rank >= Debt
		switch {
		case s.rank == Fixed, !mine && s.of <= t.Room.Share:
		case dear && (mine || own >= t.Room.Share):
		case best == nil || s.before(best):
			best = s
		}
	}
	return best
}

// before reports whether s should make room rather than o.
func (s *seat) before(o *seat) bool {
	switch {
	case (s.rank >= Debt) != (o.rank >= Debt):
		return s.rank < Debt
	case s.of != o.of:
		return s.of > o.of
	case s.rank != o.rank:
		return s.rank < o.rank
	}
	return s.worth < o.worth
}

// cut takes the entry that begins there out of the page, which is held.
func (t *Table) cut(start int) {
	end := start + int(t.page.raw[start])
	var e Entry
	if e.decode(t.page.raw[start:end], t.page.base) {
		t.leave(&e)
	}
	t.page.raw = slices.Delete(t.page.raw, start, end)
	t.page.raw[1]--
	t.page.count--
}

// leave remembers an entry that is evicted, if it has units or a debt.
func (t *Table) leave(e *Entry) {
	if e.owes() {
		gone := *e
		gone.Key = append([]byte{}, e.Key...)
		t.gone = append(t.gone, gone)
	}
}

// sharedTag is the tag of the entry that keys of a rule share which have no place in
// a page. That a key has it is as likely as that two keys have the same.
func sharedTag(rule uint32) uint64 { return uint64(rule) | 0xc0de<<32 }

// OpenShared is [Table.Open] for a key whose rule's keys may have to share an entry in
// its page; shared says that this is what is open. A key has to go by that while it is
// there: it may have had a place of its own before.
func (t *Table) OpenShared(k Key) (e *Entry, shared bool) {
	e = t.Open(k)
	if t.start < t.end || t.page.count == 0 {
		return e, false
	}
	return e, t.openTag(sharedTag(k.Rule), k.Rule)
}

// openTag opens the entry of this tag instead of the one that is open, if it is there.
func (t *Table) openTag(tag uint64, rule uint32) bool {
	start, end := t.page.find(tag)
	if start == end || !t.entry.decode(t.page.raw[start:end], t.page.base) || t.entry.Rule != rule {
		t.entry = Entry{Rule: rule, Key: t.entry.Key}
		return false
	}
	t.tag, t.start, t.end = tag, start, end
	return true
}

// Join opens, after Commit found no room for a key, the entry that it shares with the
// others of its rule that found none; if there is none yet, one of the rule's own
// counters becomes it. nil if the rule has none in the page.
func (t *Table) Join(now lease.Millis) *Entry {
	var seats [PageEntries]seat
	taken, _ := t.survey(now, &seats)
	rule := t.entry.Rule
	var best *seat
	for i := range seats[:taken] {
		if s := &seats[i]; s.rule == rule && s.rank == Counter && (best == nil || s.worth < best.worth) {
			best = s
		}
	}
	if best == nil || !t.openTag(tagOf(t.page.raw[best.start:]), rule) {
		return nil
	}
	t.tag = sharedTag(rule)
	return &t.entry
}

// merge frees the place of a counter: what it has counted is counted in the entry
// that its rule's keys share in the page, or if there is none yet in another of them,
// which becomes that entry.
func (t *Table) merge(now lease.Millis, seats []seat, victim *seat) bool {
	rule, gone := victim.rule, tagOf(t.page.raw[victim.start:])
	into := sharedTag(rule)
	if start, end := t.page.find(into); start == end {
		var other *seat
		for i := range seats {
			if s := &seats[i]; s != victim && s.rule == rule && s.rank == Counter && (other == nil || s.worth < other.worth) {
				other = s
			}
		}
		if other == nil {
			return false
		}
		into = tagOf(t.page.raw[other.start:])
	}
	var e Entry
	start, end := t.page.find(gone)
	if !e.decode(t.page.raw[start:end], t.page.base) {
		return false
	}
	out := appendHeader(make([]byte, 0, len(t.page.raw)), 0, t.page.base)
	var o Entry
	for at := headerBytes; at < len(t.page.raw); at += int(t.page.raw[at]) {
		b := t.page.raw[at : at+int(t.page.raw[at])]
		tag := tagOf(b)
		if tag == gone {
			continue
		}
		if tag == into && o.decode(b, t.page.base) {
			t.Room.Merge(&o, &e, now)
			out = o.append(out, sharedTag(rule), t.page.base, now)
		} else {
			out = append(out, b...)
		}
		out[1]++
	}
	t.page = page{raw: out, count: int(out[1]), base: t.page.base}
	t.Counts.Merged++
	return true
}
