package table

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// An entry of a full page is of one of two classes. What the region knows, leases and denials, is
// evicted: the next request of the key asks again. What exists nowhere else is pinned: a
// counter of the PoP, or a debt. A pinned entry makes room only for another rule, so
// that no rule fills a page alone.
//
// The counters of a rule that found no room, or made room, count together in the shared entry of the
// rule in the page. It rejects what any of them would reject.

const (
	// ownPlaces is how many places in a page a rule may take from pinned entries.
	ownPlaces = PageEntries / 4
	// maxShared is how many shared entries a page may hold beside its [PageEntries].
	maxShared  = 8
	maxEntries = PageEntries + maxShared
)

// Eviction is what a table needs of its owner to make room in a page without idle entries. The zero value evicts,
// and merges no counters.
type Eviction struct {
	// Merge counts in shared what e has counted, too. False if that is not possible: then e stays.
	Merge func(shared, e *Entry, now lease.Millis) bool
	// Gone is called with each entry that was evicted and had units or a debt.
	Gone func(e *Entry)
}

// place is an entry of a full page.
type place struct {
	start  int // in the page
	rule   uint32
	pinned bool
	lasts  lease.Millis
}

// pinned reports whether the entry has what exists nowhere else.
func (e *Entry) pinned() bool { return e.Counter.At != 0 || e.Overdrawn > 0 }

// lasts is until when the entry has units; 0 if it has none. The PoP's own share of a limit would begin
// anew in a new entry, so it lasts longest.
func (e *Entry) lasts(now lease.Millis) (until lease.Millis) {
	for i := range e.Leases {
		switch l := &e.Leases[i]; {
		case l.Sharing(now):
			return lease.Never
		case l.Units > 0:
			until = max(until, l.Expiry)
		}
	}
	return until
}

// evictOne frees a place in the page for the entry that is open. False if none can
// be freed.
func (t *Table) evictOne(now lease.Millis) bool {
	t.hold()
	var all [maxEntries]place
	places, idle := t.survey(now, all[:0])
	switch {
	case idle: // they go first, all at once
		before := t.page.count
		t.keep(now, func(e *Entry) bool {
			idle := t.Idle(e, now)
			if idle {
				t.leave(e)
			}
			return !idle
		})
		t.Counts.Evicted += uint64(before - t.page.count)
		return t.page.count < before // Idle may report otherwise by now
	case len(places) < PageEntries: // the others are shared
		return true
	}
	victim := t.victim(places)
	return victim != nil && t.evict(now, victim.start)
}

// survey lists the entries of the page but those that are shared or idle. It reports whether any that is not
// shared is idle.
func (t *Table) survey(now lease.Millis, places []place) (busy []place, idle bool) {
	var e Entry
	for at := headerBytes; at < len(t.page.raw); at += int(t.page.raw[at]) {
		b := t.page.raw[at : at+int(t.page.raw[at])]
		switch ok := e.decode(b, t.page.base); {
		case ok && tagOf(b) == sharedTag(e.Rule):
		case !ok, t.Idle(&e, now):
			idle = true
		default:
			places = append(places, place{start: at, rule: e.Rule, pinned: e.pinned(), lasts: e.lasts(now)})
		}
	}
	return places, idle
}

// victim picks the entry that makes room for the one that is open: of its rule, or of one with more places.
func (t *Table) victim(places []place) (victim *place) {
	own, most := placesOf(places, t.entry.Rule), 0
	for i := range places {
		p := &places[i]
		mine, n := p.rule == t.entry.Rule, placesOf(places, p.rule)
		switch {
		case !mine && n <= own, p.pinned && (mine || own >= ownPlaces):
		case victim == nil, p.before(victim, n-most):
			victim, most = p, n
		}
	}
	return victim
}

// before reports whether p makes room rather than o, whose rule has so many places less.
func (p *place) before(o *place, less int) bool {
	switch {
	case p.pinned != o.pinned:
		return o.pinned
	case less != 0:
		return less > 0
	}
	return p.lasts < o.lasts
}

// placesOf counts the places of a rule.
func placesOf(places []place, rule uint32) (n int) {
	for i := range places {
		if places[i].rule == rule {
			n++
		}
	}
	return n
}

// evict takes the entry that begins there out of the page. If it is a counter, the shared entry of its rule counts
// what it has counted.
func (t *Table) evict(now lease.Millis, start int) bool {
	var e, shared Entry
	tag := tagOf(t.page.raw[start:])
	if !e.decode(t.page.raw[start:start+int(t.page.raw[start])], t.page.base) {
		return false
	}
	if e.Counter.At == 0 {
		t.leave(&e)
		t.cut(start)
		t.Counts.Evicted++
		return true
	}
	at, end := t.page.find(sharedTag(e.Rule))
	found := at < end && shared.decode(t.page.raw[at:end], t.page.base)
	shared.Rule = e.Rule
	if !found && t.page.count == maxEntries || t.Eviction.Merge == nil || !t.Eviction.Merge(&shared, &e, now) {
		return false
	}
	if at < end {
		t.cut(at)
		start, _ = t.page.find(tag)
	}
	t.cut(start)
	t.page.raw = shared.append(t.page.raw, sharedTag(e.Rule), t.page.base, now)
	t.page.raw[1]++
	t.page.count++
	t.Counts.Full++
	return true
}

// cut removes the entry that begins there from the page, which is held.
func (t *Table) cut(start int) {
	t.page.raw = slices.Delete(t.page.raw, start, start+int(t.page.raw[start]))
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

// OpenShared is [Table.Open] for a key of a rule whose counters share an entry of the page where
// they find no room; shared reports that this one is open. As long as it exists a key
// without an entry uses it: the key may have had an entry of its own before.
func (t *Table) OpenShared(k Key) (e *Entry, shared bool) {
	e = t.Open(k)
	if t.start < t.end || t.page.count == 0 {
		return e, false
	}
	start, end := t.page.find(sharedTag(k.Rule))
	if start == end || !t.entry.decode(t.page.raw[start:end], t.page.base) {
		t.entry = Entry{Rule: k.Rule, Key: t.entry.Key}
		return e, false
	}
	t.tag, t.start, t.end = sharedTag(k.Rule), start, end
	return e, true
}

// Join opens a new shared entry for the rule of the key that is open, after Commit found no
// room for the key.
func (t *Table) Join() *Entry {
	t.tag = sharedTag(t.entry.Rule)
	t.entry = Entry{Rule: t.entry.Rule}
	return &t.entry
}
