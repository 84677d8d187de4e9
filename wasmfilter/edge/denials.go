package edge

import "github.com/weirlimit/weir/internal/lease"

// denials is a cache of denials in front of the table: a flood is refused from
// here without reading what the workers share. It is direct-mapped and has no
// pointers, so that the garbage collector does not look at it; a key that falls
// on another one's place replaces it.
//
// A denial stands until the moment at which the key's slot would do anything else
// than refuse: until the holder may ask again, or shortly, where an answer is
// under way that may change it.
type denials struct {
	entries []denial
}

type denial struct {
	hash    uint64
	until   lease.Millis // refuse until then
	retryAt lease.Millis
	need    int64  // requests that cost at least this are refused
	refused uint64 // units, since the slot was last told
}

// denialsLog2 sizes the cache: 16,384 entries, 640 KiB, made with the first denial.
const denialsLog2 = 14

// whileAsking is how long a denial stands when an answer is under way.
const whileAsking lease.Millis = 2

// at is the place of a key; nil if nothing was ever denied.
func (d *denials) at(hash uint64) *denial {
	if len(d.entries) == 0 {
		return nil
	}
	return &d.entries[hash&(1<<denialsLog2-1)]
}

// refuses returns the denial that refuses a request of this cost; nil if none.
func (d *denials) refuses(hash uint64, now lease.Millis, cost int64) *denial {
	e := d.at(hash)
	if e == nil || e.hash != hash || now >= e.until || cost < e.need {
		return nil
	}
	e.refused += uint64(cost)
	return e
}

// remember keeps a denial.
func (d *denials) remember(hash uint64, until, retryAt lease.Millis, need int64) {
	if len(d.entries) == 0 {
		d.entries = make([]denial, 1<<denialsLog2)
	}
	e := d.at(hash)
	refused := uint64(0)
	if e.hash == hash {
		refused = e.refused
	}
	*e = denial{hash: hash, until: until, retryAt: retryAt, need: need, refused: refused}
}

// forget drops the denial of a key whose slot has changed, and returns how many
// units it refused that the slot was not told of.
func (d *denials) forget(hash uint64) uint64 {
	e := d.at(hash)
	if e == nil || e.hash != hash {
		return 0
	}
	refused := e.refused
	*e = denial{}
	return refused
}

// clear drops all denials: other rules are in force.
func (d *denials) clear() { clear(d.entries) }
