package table

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// Rank is what it costs to evict an entry, the least first.
type Rank uint8

// The ranks.
const (
	Denial  Rank = iota // an ask, which the region denies again
	Lease               // an ask, and units that go back
	Share               // a share of the holder's own begins anew
	Debt                // units that are never reported
	Counter             // it cannot be forgotten, only counted together with others
	Fixed               // not to be touched
)

// Room is how a table makes room in a page that is full. Its zero value evicts idle entries
// only.
type Room struct {
	// Rank is what it costs to evict an entry, and which of those of one rank goes
	// first: the one with the least worth. It must not change the entry.
	Rank func(e *Entry, now lease.Millis) (r Rank, worth int64)
	// Merge counts what e has counted in the entry that is shared, too.
	Merge func(shared, e *Entry, now lease.Millis)
	// Gone is called with each entry that was evicted and had units or a debt.
	Gone func(e *Entry)
	// Share is how many entries of a page each rule may keep. Entries beyond that are
	// evicted for rules that have fewer; those within it only for other keys of the rule.
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
		return t.page.count < before // Idle may report otherwise by now
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

// victim picks the entry to evict for one of a rule that has own entries in the page. An
// entry that can be asked for again goes first, of the rule with the most entries. Another
// one goes only for a rule that has less than its share.
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

// sharedTag is the tag of the shared entry of a rule. That a key has this tag is as unlikely
// as that two keys have the same.
func sharedTag(rule uint32) uint64 { return uint64(rule) | 0xc0de<<32 }

// OpenShared is [Table.Open] for a key of a rule whose keys share an entry of the page where
// they find no room; shared reports that this one is open. As long as it exists a key
// without an entry uses it: the key may have had an entry of its own before.
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

// Join opens the shared entry of the key's rule, after Commit found no room for the key. If
// there is none yet, one of the rule's counters becomes the shared entry. nil if the rule
// has no counter in the page.
func (t *Table) Join(now lease.Millis) *Entry {
	var seats [PageEntries]seat
	taken, _ := t.survey(now, &seats)
	rule := t.entry.Rule
	best := leastCounter(seats[:taken], rule, nil)
	if best == nil || !t.openTag(tagOf(t.page.raw[best.start:]), rule) {
		return nil
	}
	t.tag = sharedTag(rule)
	return &t.entry
}

// leastCounter is the counter of a rule that has counted least; nil if there is none but
// except.
func leastCounter(seats []seat, rule uint32, except *seat) (least *seat) {
	for i := range seats {
		if s := &seats[i]; s != except && s.rule == rule && s.rank == Counter && (least == nil || s.worth < least.worth) {
			least = s
		}
	}
	return least
}

// merge frees the place of a counter: its count is added to the shared entry of its rule. If
// there is none yet, another counter of the rule becomes the shared entry.
func (t *Table) merge(now lease.Millis, seats []seat, victim *seat) bool {
	rule, gone := victim.rule, tagOf(t.page.raw[victim.start:])
	into := sharedTag(rule)
	if start, end := t.page.find(into); start == end {
		other := leastCounter(seats, rule, victim)
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
