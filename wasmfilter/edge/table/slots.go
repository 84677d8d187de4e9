package table

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/limit"
)

// Slots is the table of concurrency limits that the PoP itself grants (scope:
// pop): which worker holds how many slots of which key. It has pages of its own.
// Create it with [NewSlots]; it is for one goroutine.
type Slots struct {
	store   Store
	name    [3]byte
	version uint32
	page    []keySlots
	at      int // of the key that is open, in page; its length if it is new
	hash    uint64
	out     []byte
}

// keySlots is what is held of one key.
type keySlots struct {
	hash  uint64
	slots limit.Slots
}

const (
	slotsPagesLog2 = 8
	slotsPerPage   = 64
	// slotsHolders is how many workers may hold slots of a key at a time.
	slotsHolders = 1<<8 - 1
)

// NewSlots returns access to the slots in the pages of that letter.
func NewSlots(store Store, letter byte) *Slots {
	return &Slots{store: store, name: [3]byte{letter}}
}

// Open reads what is held of a key.
func (t *Slots) Open(k Key) limit.Slots {
	t.name[1], t.hash = byte(k.Hash>>(64-slotsPagesLog2)), k.Hash
	raw, version, ok := t.store.Get(t.name[:])
	if t.version = version; !ok {
		t.version = Absent
	}
	t.page = readSlots(raw, t.page[:0])
	for t.at = 0; t.at < len(t.page); t.at++ {
		if t.page[t.at].hash == k.Hash {
			return t.page[t.at].slots
		}
	}
	return limit.Slots{}
}

// Commit writes what is held of the key that is open, if nobody changed its page
// since. Keys of which nothing is held after now make room.
func (t *Slots) Commit(now limit.Micros, st limit.Slots) Outcome {
	if t.at == len(t.page) {
		t.page = append(t.page, keySlots{hash: t.hash})
	}
	t.page[t.at].slots = st
	count := 0
	t.out = append(t.out[:0], Layout, 0)
	for i := range t.page {
		if held := t.page[i].slots.Held; i == t.at || lasts(held, now) {
			t.out = appendSlots(t.out, &t.page[i])
			count++
		}
	}
	if count > slotsPerPage {
		return Full
	}
	t.out[1] = byte(count)
	return t.store.Set(t.name[:], t.out, t.version)
}

func lasts(held []limit.Holding, now limit.Micros) bool {
	for i := range held {
		if held[i].Until > now {
			return true
		}
	}
	return false
}

func appendSlots(dst []byte, k *keySlots) []byte {
	held := k.slots.Held[:min(len(k.slots.Held), slotsHolders)]
	dst = binary.LittleEndian.AppendUint64(dst, k.hash)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(k.slots.At))
	dst = append(dst, byte(len(held)))
	for i := range held {
		dst = binary.LittleEndian.AppendUint64(dst, held[i].ID)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(held[i].Units))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(held[i].Until))
	}
	return dst
}

// readSlots reads a page; one that makes no sense counts as empty.
func readSlots(raw []byte, page []keySlots) []keySlots {
	if len(raw) < 2 || raw[0] != Layout {
		return page
	}
	r := reader{src: raw[2:]}
	for range raw[1] {
		k := keySlots{hash: r.u64(), slots: limit.Slots{At: limit.Micros(r.u64())}}
		var before uint64
		for i := range r.u8() {
			h := limit.Holding{ID: r.u64(), Units: int64(r.u32()), Until: limit.Micros(r.u64())}
			if r.short || h.Units == 0 || i > 0 && h.ID <= before {
				return page[:0]
			}
			before = h.ID
			k.slots.Used += h.Units
			k.slots.Held = append(k.slots.Held, h)
			if i == 0 || h.Until < k.slots.Next {
				k.slots.Next = h.Until
			}
		}
		page = append(page, k)
	}
	if r.short || len(r.src) > 0 {
		return page[:0]
	}
	return page
}
