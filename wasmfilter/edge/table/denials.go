package table

import "github.com/weirlimit/weir/internal/lease"

// Denials is a worker's cache of denials in front of a table: a flood is rejected from
// here without reading what the workers share. It is direct-mapped and has no
// pointers, so that the garbage collector does not look at it; a key that falls
// on another one's place replaces it. The zero value is empty.
//
// A denial is kept until the key's account would do anything else than reject: until
// the worker may ask again, or shortly, where an answer is under way that may change it.
type Denials struct {
	entries []Rejection
}

// Rejection is why a key is rejected without a look at its entry.
type Rejection struct {
	Until    lease.Millis // reject until then
	RetryAt  lease.Millis // when a client should come back
	Cost     int64        // requests that cost this are rejected
	OwnLimit int64        // see holder.State
	Blocked  bool         // the key is blocked

	hash     uint64
	rejected int64 // units, that the account does not count yet
}

// denialsLog2 sizes the cache: 16,384 entries, 768 KiB, made with the first denial.
const denialsLog2 = 14

// at is the place of a key; nil if nothing was ever denied.
func (d *Denials) at(hash uint64) *Rejection {
	if len(d.entries) == 0 {
		return nil
	}
	return &d.entries[hash&(1<<denialsLog2-1)]
}

// Rejects returns the denial that rejects a request of this cost; nil if none.
func (d *Denials) Rejects(hash uint64, now lease.Millis, cost int64) *Rejection {
	e := d.at(hash)
	if e == nil || e.hash != hash || now >= e.Until || cost != e.Cost {
		return nil
	}
	e.rejected = lease.Sum(e.rejected, cost)
	return e
}

// Remember keeps a denial of a key.
func (d *Denials) Remember(hash uint64, r Rejection) {
	if len(d.entries) == 0 {
		d.entries = make([]Rejection, 1<<denialsLog2)
	}
	e := d.at(hash)
	if r.hash = hash; e.hash == hash {
		r.rejected = e.rejected
	}
	*e = r
}

// Count adds a rejection of a remembered key that its account does not count.
func (d *Denials) Count(hash uint64, cost int64) {
	e := d.at(hash)
	e.rejected = lease.Sum(e.rejected, cost)
}

// Forget drops the denial of a key whose account has changed, and returns how many
// units it rejected that the account does not count yet.
func (d *Denials) Forget(hash uint64) int64 {
	e := d.at(hash)
	if e == nil || e.hash != hash {
		return 0
	}
	rejected := e.rejected
	*e = Rejection{}
	return rejected
}

// Clear drops all denials: other rules are in force.
func (d *Denials) Clear() { clear(d.entries) }
