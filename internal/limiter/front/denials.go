package front

import (
	"math"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// evictedDenials are the denials of evicted keys of a shard, in a seventeenth of the memory of an
// entry. An ask for such a key is refused as [lease.Account.Fail] would refuse it, and
// evicts no other key for that.
//
// A key is identified by its hash: two keys whose 64 bits agree are taken for each other. A limit
// of another shape has another hash. The place of a hash is in the emptier of two buckets.
// Where both are full, the denial that ends first is forgotten. The shard is locked while
// they are used; the zero value remembers nothing.
type evictedDenials struct {
	room    int // how many entries the shard has room for
	buckets []bucket
}

type bucket [8]denial

// bucketsFor is how many buckets go with so many entries: of three places for two of
// them, so that hardly any denial is lost while no more keys are denied than that.
func bucketsFor(entries int) int { return 3*entries/(2*len(bucket{})) + 1 }

// evictedDenials are those of the shard.
func (k *key) evictedDenials() *evictedDenials { return &k.store.evictedDenials[k.shard.Number()] }

// denial is one of them.
type denial struct {
	hash  uint64
	until lease.Millis // the counter is as good as new then; 0: the place is free
	need  uint32       // the least need that is denied
	rest  uint32       // how long before until the store may be asked again; atOnce: now
}

// atOnce is the pause of a denial that lasts so long that it does not fit.
const atOnce = math.MaxUint32

// denialOf is what is to be remembered of an account; false: nothing was denied.
func denialOf(now lease.Millis, hash uint64, of *lease.Account) (denial, bool) {
	need := int64(math.MaxInt64)
	if of.DeniedNeed > 0 {
		need = of.DeniedNeed
	}
	if of.Refused {
		need = min(need, max(0, of.Left-of.Overdrawn)+1)
	}
	if now >= of.Reset || need > limit.MaxCount {
		return denial{}, false
	}
	rest := min(max(0, of.Reset-of.NextAsk), atOnce)
	return denial{hash: hash, until: of.Reset, need: uint32(need), rest: uint32(rest)}, true
}

// account is one that has a denial and nothing else.
func (d *denial) account(t *lease.Terms) lease.Account {
	left := int64(d.need) - 1
	account := lease.Account{DeniedNeed: left + 1, Left: left, Refused: 2*left < t.Capacity, Reset: d.until}
	if d.rest < atOnce {
		account.NextAsk = d.until - lease.Millis(d.rest)
	}
	return account
}

// places are the two buckets in which a hash may be. Its upper bits chose the shard.
func (d *evictedDenials) places(hash uint64) [2]*bucket {
	n := uint64(len(d.buckets))
	return [2]*bucket{&d.buckets[hash&math.MaxUint32*n>>32], &d.buckets[hash>>24&math.MaxUint32*n>>32]}
}

// find returns the denial of a key that still stands; nil: none does.
func (d *evictedDenials) find(now lease.Millis, hash uint64) *denial {
	if len(d.buckets) == 0 {
		return nil
	}
	for _, b := range d.places(hash) {
		for i := range b {
			if b[i].hash == hash && now < b[i].until {
				return &b[i]
			}
		}
	}
	return nil
}

// remember keeps a denial.
func (d *evictedDenials) remember(now lease.Millis, n denial) {
	if len(d.buckets) == 0 {
		d.buckets = make([]bucket, bucketsFor(d.room))
	}
	place := d.find(now, n.hash)
	if place == nil {
		if place = d.first(now, n.hash); now < place.until && n.until < place.until {
			return
		}
	}
	*place = n
}

// first is the place of a hash that will be free first: in the emptier bucket, if one
// is.
func (d *evictedDenials) first(now lease.Millis, hash uint64) *denial {
	var first [2]*denial
	var free [2]int
	for i, b := range d.places(hash) {
		first[i] = &b[0]
		for j := range b {
			if b[j].until <= now {
				free[i]++
			}
			if b[j].until < first[i].until {
				first[i] = &b[j]
			}
		}
	}
	if free[1] > free[0] || free[1] == free[0] && first[1].until < first[0].until {
		return first[1]
	}
	return first[0]
}

// take returns an account with the denial of a key, and forgets it here.
func (d *evictedDenials) take(now lease.Millis, hash uint64, t *lease.Terms) (account lease.Account) {
	if n := d.find(now, hash); n != nil {
		account = n.account(t)
		*n = denial{}
	}
	return account
}

// refuseEvicted refuses an ask for a key without an entry by the denial that is remembered
// of it. False if the ask needs an entry: to settle units, to count it where refused
// requests are charged, or because the store may be asked.
func (q *acquisition) refuseEvicted(k key, a *engine.Ask, i int) bool {
	d := k.evictedDenials().find(q.now, k.hash)
	w := &a.Want
	if d == nil || a.Policy.Beside != nil || w.Want == 0 || w.Unused > 0 || a.Policy.Limit.ChargesDenied() {
		return false
	}
	t := &a.Policy.Terms
	relay := lease.Relay{Account: d.account(t)}
	grant, verdict, _ := relay.Acquire(t, q.now, *w)
	if verdict != lease.Refuse {
		return false
	}
	q.grants[i] = grant
	q.answered(verdict)
	return true
}

// noteDenied remembers that an ask was denied for which there was no room.
func (s *Store) noteDenied(now lease.Millis, a *engine.Ask, g lease.Grant) {
	if g.Status != lease.Denied || a.Want.Need == 0 || a.Policy.Beside != nil {
		return
	}
	k := s.lock(a)
	defer k.shard.Unlock()
	if k.shard.Find(k.hash, a.Policy, a.Key) != nil {
		return
	}
	account := lease.Account{DeniedNeed: min(a.Want.Need, g.Remaining+1), Reset: now + g.Reset, NextAsk: now + g.AskAfter}
	if d, ok := denialOf(now, k.hash, &account); ok {
		k.evictedDenials().remember(now, d)
	}
}
