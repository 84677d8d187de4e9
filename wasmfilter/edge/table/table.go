package table

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
)

// Key names an entry: a hash with the table's [Seed] of the rule's id and the
// canonical key, the id's lower half, and the key.
type Key struct {
	Hash uint64
	Rule uint32
	Text []byte
}

// noText is the key of a rule without parts: empty, but not nil.
var noText = []byte{}

// Table is one worker's access to the table. Create it with [New].
type Table struct {
	// Idle reports whether an entry is as good as a new one: it may be evicted when
	// its page is full. It must not change the entry.
	Idle func(e *Entry, now lease.Millis) bool
	// Eviction is how the table makes room in a page without idle entries.
	Eviction Eviction
	// Counts is what happened, for metrics; the reader may set it to zero, and tables may
	// share it.
	Counts *Counts

	store Store
	shift int     // of a hash, to its page
	name  [3]byte // of a page in the store: the table's letter and the page's number

	// The page that is open.
	page    page
	version uint32
	tag     uint64
	start   int // of the entry in the page
	end     int
	entry   Entry
	out     []byte  // the page that is to be written
	gone    []Entry // what is evicted with it
	held    []byte  // a copy of a page
}

// Counts is what one worker did in a table and found there.
type Counts struct {
	Full    uint64 // keys that found no room, or made room and count in a shared entry from then on
	Evicted uint64 // keys that were evicted to make room
	Corrupt uint64 // pages that could not be read and were treated as empty
}

// MaxPagesLog2 is the most pages a table can have, as a power of two.
const MaxPagesLog2 = 15

// New returns access to the table of that letter in store. All workers must agree
// on the letter and on the number of pages, 2^pagesLog2.
func New(store Store, letter byte, pagesLog2 int, idle func(*Entry, lease.Millis) bool) *Table {
	return &Table{
		Idle:   idle,
		Counts: new(Counts),
		store:  store,
		shift:  64 - min(max(pagesLog2, 0), MaxPagesLog2),
		name:   [3]byte{letter},
		out:    make([]byte, 0, maxPage),
	}
}

// Pages returns the number of pages.
func (t *Table) Pages() int { return 1 << (64 - t.shift) }

// Open reads the entry of a key, the zero Entry if there is none. What it returns
// may be changed and is written by [Table.Commit]; it is valid until the next
// Open. Key is set.
func (t *Table) Open(k Key) *Entry {
	t.read(uint16(k.Hash >> t.shift))
	t.tag = k.Hash & (1<<(8*tagBytes) - 1)
	t.start, t.end = t.page.find(t.tag)
	if t.start == t.end || !t.entry.decode(t.page.raw[t.start:t.end], t.page.base) {
		t.entry = Entry{}
	}
	t.entry.Rule, t.entry.Key = k.Rule, k.Text
	if k.Text == nil {
		t.entry.Key = noText
	}
	return &t.entry
}

// read fetches a page; a corrupt one counts as empty.
func (t *Table) read(number uint16) {
	binary.LittleEndian.PutUint16(t.name[1:], number)
	raw, version, ok := t.store.Get(t.name[:])
	if !ok {
		version = Absent
	}
	if t.page, ok = readPage(raw); !ok {
		t.Counts.Corrupt++
	}
	t.version = version
}

// Commit writes the entry that is open if its page was not changed since. An
// outcome other than Stored changed nothing.
func (t *Table) Commit(now lease.Millis) Outcome {
	p := &t.page
	if p.count == 0 || now-p.base > rebaseAfter {
		t.keep(now, func(*Entry) bool { return true })
		t.start, t.end = p.find(t.tag)
	}
	if t.start < t.end { // it was there before
		t.out = append(t.out[:0], p.raw[:t.start]...)
		t.out = t.entry.append(t.out, t.tag, p.base, now)
		t.out = append(t.out, p.raw[t.end:]...)
		return t.write()
	}
	room := p.count < maxEntries
	if p.count >= PageEntries && t.tag != sharedTag(t.entry.Rule) {
		room = t.evictOne(now)
	}
	if !room {
		t.Counts.Full++
		return Full
	}
	t.out = append(t.out[:0], p.raw...)
	t.out[1]++
	t.out = t.entry.append(t.out, t.tag, p.base, now)
	return t.write()
}

func (t *Table) write() Outcome {
	outcome := t.store.Set(t.name[:], t.out, t.version)
	for i := range t.gone {
		if outcome == Stored && t.Eviction.Gone != nil {
			t.Eviction.Gone(&t.gone[i])
		}
		t.gone[i] = Entry{}
	}
	t.gone = t.gone[:0]
	return outcome
}

// hold copies the page that is open, for as long as others may call the store.
func (t *Table) hold() {
	t.held = append(t.held[:0], t.page.raw...)
	t.page.raw = t.held
}

// keep repacks the page with the entries that f wants, and a new base if it is time for one.
func (t *Table) keep(now lease.Millis, f func(*Entry) bool) {
	old := t.page
	base := max(now-rebaseTo, 0)
	if old.count > 0 && now-old.base <= rebaseAfter {
		base = old.base
	}
	out := binary.LittleEndian.AppendUint64(append(make([]byte, 0, max(len(old.raw), headerBytes)), layout, 0), uint64(base))
	var e Entry
	for at := headerBytes; at < len(old.raw); at += int(old.raw[at]) {
		b := old.raw[at : at+int(old.raw[at])]
		if e.decode(b, old.base) && f(&e) {
			out = e.append(out, tagOf(b), base, now)
			out[1]++
		}
	}
	t.page = page{raw: out, count: int(out[1]), base: base}
}

// Visit looks through a page. f may change each entry, and decides whether to keep it. The
// page is written if f changed it; if that fails, nothing has changed.
func (t *Table) Visit(now lease.Millis, number int, f func(e *Entry) (keep bool)) Outcome {
	t.read(uint16(number))
	if t.page.count == 0 {
		return Stored
	}
	t.hold()
	before := t.page.raw
	t.keep(now, f)
	if string(before) == string(t.page.raw) {
		return Stored
	}
	t.out = append(t.out[:0], t.page.raw...)
	return t.write()
}
