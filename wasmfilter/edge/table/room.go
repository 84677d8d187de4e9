package table

import (
	"math"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
)

// makeRoom frees places in the page, which is full: those of all idle entries, else that of
// the entry, of those that the tier above knows, which was asked for longest ago. False if
// there is none.
func (t *Table) makeRoom(now lease.Millis) bool {
	t.hold()
	raw, kept := t.page.raw, t.page.raw[:headerBytes]
	oldest, asked := 0, lease.Millis(math.MaxInt64)
	var e Entry
	for at := headerBytes; at < len(raw); {
		b := raw[at : at+int(raw[at])]
		at += len(b)
		switch {
		case !e.decode(b, t.page.base):
			e = Entry{}
			fallthrough
		case t.Idle(&e, now):
			t.evict(&e)
			continue
		case e.Asked < asked && t.Known(&e, now):
			oldest, asked = len(kept), e.Asked
		}
		kept = append(kept, b...)
	}
	t.page.raw = kept
	if len(kept) < len(raw) {
		return true
	}
	if oldest == 0 {
		return false
	}
	end := oldest + int(kept[oldest])
	if e.decode(kept[oldest:end], t.page.base) {
		t.evict(&e)
	}
	t.page.raw = slices.Delete(kept, oldest, end)
	return true
}

// evict counts an entry out of the page, and remembers it if it has units or a debt.
func (t *Table) evict(e *Entry) {
	t.page.raw[1]--
	t.page.count--
	t.Counts.Evicted++
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
// they find no place; shared reports that this one is open. As long as it exists a key
// without an entry uses it: the key may have counted there before.
func (t *Table) OpenShared(k Key) (e *Entry, shared bool) {
	e = t.Open(k)
	if t.start < t.end {
		return e, false
	}
	t.shares = true
	if t.page.count == 0 {
		return e, false
	}
	tag := sharedTag(k.Rule)
	start, end := t.page.find(tag)
	if start == end || !e.decode(t.page.raw[start:end], t.page.base) || e.Rule != k.Rule {
		*e = Entry{Rule: k.Rule, Key: t.entry.Key}
		return e, false
	}
	t.Counts.Full++
	t.tag, t.start, t.end = tag, start, end
	return e, true
}
