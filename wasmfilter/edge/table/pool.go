package table

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
)

// Pool is the table of concurrency limits: for each key, how many slots each worker holds
// of the region, and how many it uses. A worker may use slots that another one holds.
// A Pool has pages of its own and is for one goroutine. Create it with [NewPool].
type Pool struct {
	store   Store
	name    [3]byte
	version uint32
	raw     []byte // the page that is open, header included; of the store
	start   int    // of the open key in it
	end     int
	out     []byte // the page that is to be written
}

// Member is what one worker publishes of one key.
type Member struct {
	Uses  int64        // slots that its streams use
	May   int64        // slots that the region lets it hold
	Until lease.Millis // until then
	Seen  lease.Millis // Uses counts until then, unless it is written again
	// Gave is until when slots that this worker gave back last may have been on their
	// way: when the answer came, or, as long as it has not, when it is given up.
	Gave lease.Millis
}

// idle reports a member that makes no difference any more.
func (m *Member) idle(now lease.Millis) bool {
	return (m.Uses == 0 || now >= m.Seen) && (m.May == 0 || now >= m.Until) && now >= m.Gave+gaveLately
}

// gaveLately is how long it matters that slots were given back: longer than any ask for
// them is under way.
const gaveLately lease.Millis = 1000

// Others is the sum of what the other workers publish.
type Others struct {
	Uses, May int64
	Gave      lease.Millis // the latest
}

// PoolPages is the number of pages.
const PoolPages = 1 << poolPagesLog2

const (
	poolPagesLog2 = 10
	poolPerPage   = 32
	maxPoolKeys   = poolPerPage + 8 // see roomFor
	poolMembers   = 1<<8 - 1        // of a key

	poolHeader  = 2     // layout, number of keys
	keyBytes    = 8 + 1 // hash, number of members
	memberBytes = 8 + 4 + 4 + 3*6
)

// NewPool returns access to the pages of that letter.
func NewPool(store Store, letter byte) *Pool {
	return &Pool{store: store, name: [3]byte{letter}}
}

// Open reads what the workers but id publish of a key. A corrupt page counts as empty.
func (t *Pool) Open(now lease.Millis, k Key, id uint64) (others Others) {
	t.read(int(k.Hash >> (64 - poolPagesLog2)))
	t.start, t.end = t.find(k.Hash)
	for at := t.start + keyBytes; at < t.end; at += memberBytes {
		other, m := readMember(t.raw[at:])
		if other == id {
			continue
		}
		if now < m.Seen {
			others.Uses += m.Uses
		}
		if now < m.Until {
			others.May += m.May
		}
		others.Gave = max(others.Gave, m.Gave)
	}
	return others
}

// Commit writes what the worker id publishes of the key that is open, if its page was
// not changed since. What the other workers publish stays, unless it is idle.
func (t *Pool) Commit(now lease.Millis, k Key, id uint64, m Member) Outcome {
	t.out = append(t.out[:0], t.raw[:t.start]...)
	t.out = append(binary.LittleEndian.AppendUint64(t.out, k.Hash), 0)
	n := 0
	for at := t.start + keyBytes; at < t.end; at += memberBytes {
		if other, o := readMember(t.raw[at:]); other != id && !o.idle(now) {
			t.out = append(t.out, t.raw[at:at+memberBytes]...)
			n++
		}
	}
	if !m.idle(now) {
		t.out = appendMember(t.out, id, &m)
		n++
	}
	if n > poolMembers {
		return Full
	}
	if t.out[t.start+keyBytes-1] = byte(n); n == 0 {
		t.out = t.out[:t.start]
	}
	there := t.start < t.end
	switch {
	case n == 0 && !there:
		return Stored
	case n == 0:
		t.out[1]--
	case !there && int(t.raw[1]) >= roomFor(k):
		if !t.prune(now) {
			return Full
		}
		t.start, t.end = len(t.raw), len(t.raw)
		return t.Commit(now, k, id, m)
	case !there:
		t.out[1]++
	}
	t.out = append(t.out, t.raw[t.end:]...)
	return t.store.Set(t.name[:], t.out, t.version)
}

// roomFor is how many keys a page has when it takes no more like k. There are places only
// for keys without text, of which a rule has at most two.
func roomFor(k Key) int {
	if len(k.Text) == 0 {
		return maxPoolKeys
	}
	return poolPerPage
}

// Sweep drops the idle members of a page. Another worker's write at the same time wins.
func (t *Pool) Sweep(now lease.Millis, page int) {
	if t.read(page); t.raw[1] > 0 && t.prune(now) {
		t.store.Set(t.name[:], t.raw, t.version)
	}
}

// prune drops the idle members of the page that is open; false if there are none.
func (t *Pool) prune(now lease.Millis) bool {
	kept := append(make([]byte, 0, len(t.raw)), layout, 0)
	for at := poolHeader; at < len(t.raw); {
		key, end := len(kept), at+keyBytes+int(t.raw[at+keyBytes-1])*memberBytes
		kept = append(kept, t.raw[at:at+keyBytes]...)
		kept[key+keyBytes-1] = 0
		for at += keyBytes; at < end; at += memberBytes {
			if _, m := readMember(t.raw[at:]); !m.idle(now) {
				kept = append(kept, t.raw[at:at+memberBytes]...)
				kept[key+keyBytes-1]++
			}
		}
		if kept[key+keyBytes-1] == 0 {
			kept = kept[:key]
		} else {
			kept[1]++
		}
	}
	changed := len(kept) < len(t.raw)
	t.raw = kept
	return changed
}

// emptyPool is a page without keys.
var emptyPool = []byte{layout, 0}

// read fetches a page and checks it from end to end.
func (t *Pool) read(page int) {
	put16(t.name[1:], uint16(page))
	raw, version, ok := t.store.Get(t.name[:])
	if t.version = version; !ok {
		t.version = Absent
	}
	if t.raw = raw; !whole(raw) {
		t.raw = emptyPool
	}
}

func whole(raw []byte) bool {
	if len(raw) < poolHeader || raw[0] != layout {
		return false
	}
	at := poolHeader
	for range raw[1] {
		if at+keyBytes > len(raw) || raw[at+keyBytes-1] == 0 {
			return false
		}
		at += keyBytes + int(raw[at+keyBytes-1])*memberBytes
	}
	return at == len(raw)
}

// find returns where a key begins and ends in the page; both are the end of the page
// if it is not there.
func (t *Pool) find(hash uint64) (start, end int) {
	for at := poolHeader; at < len(t.raw); {
		end := at + keyBytes + int(t.raw[at+keyBytes-1])*memberBytes
		if get64(t.raw[at:]) == hash {
			return at, end
		}
		at = end
	}
	return len(t.raw), len(t.raw)
}

func appendMember(dst []byte, id uint64, m *Member) []byte {
	var b [memberBytes]byte
	put64(b[:], id)
	put32(b[8:], packUnits(m.Uses))
	put32(b[12:], packUnits(m.May))
	put48(b[16:], m.Until)
	put48(b[22:], m.Seen)
	put48(b[28:], m.Gave)
	return append(dst, b[:]...)
}

func readMember(b []byte) (id uint64, m Member) {
	b = b[:memberBytes]
	m = Member{
		Uses:  int64(get32(b[8:])),
		May:   int64(get32(b[12:])),
		Until: get48(b[16:]),
		Seen:  get48(b[22:]),
		Gave:  get48(b[28:]),
	}
	return get64(b), m
}

// put48 and get48 keep a time in six bytes: whatever a clock begins with, and 8,900
// years of it.
func put48(b []byte, t lease.Millis) {
	v := min(uint64(max(t, 0)), 1<<48-1)
	put32(b, uint32(v))
	put16(b[4:], uint16(v>>32))
}

func get48(b []byte) lease.Millis {
	return lease.Millis(uint64(get32(b)) | uint64(get16(b[4:]))<<32)
}
