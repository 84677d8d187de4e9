package aggregator

import (
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/fair"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/telemetry"
)

// leastRegions is among how many regions a limit without configured shares is divided at least: an
// aggregator that has just started has not heard of them all.
const leastRegions = 2

// key is what is kept of a key. A counter below is made only for a key that has one.
type key struct {
	fair.Shares
	owner *region // the region that asked for the key first, and for which it counts
}

// roomStep is how many keys are scanned for one new key where there is no room for it.
const roomStep = 16

// keyBytes is what a key takes beside its name and its shares.
const keyBytes = int(unsafe.Sizeof(table.Entry[key]{}))

// account is what is kept of a region over all keys.
type account struct {
	keys, bytes atomic.Int64 // of the keys that it owns
	logged      repeat.OncePerMinute

	owned                           telemetry.Gauge
	keysRejected, notHad, overdrawn telemetry.Counter
}

// mayOwn reports whether a region may have one more key. One region fills at most half of the table, so
// that one that floods it with keys leaves room for the keys of the others.
func (s *Store) mayOwn(r *region, name []byte) bool {
	return 2*(r.keys.Load()+1) <= int64(s.config.MaxKeys) && 2*(r.bytes.Load()+int64(keyBytes+len(name))) <= s.config.MaxBytes
}

// owns notes that a region owns so many keys more, and bytes.
func (r *region) owns(keys, bytes int) {
	r.owned.Set(float64(r.keys.Add(int64(keys))))
	r.bytes.Add(int64(bytes))
}

// with calls use with the shares of an ask's key, under their lock, and reports whether there are any: not of
// a key that was not used, as long as the ask changes nothing, and not where there is no room for it.
func (s *Store) with(now limit.Micros, r *region, a *engine.Ask, use func(*fair.Shares)) bool {
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := shard.Find(hash, a.Policy, a.Key)
	if e == nil {
		if !a.Changes() {
			return false
		}
		if e = s.add(shard, hash, now, r, a); e == nil {
			return false
		}
	}
	e.Policy = a.Policy
	before := e.Value.Bytes()
	use(&e.Value.Shares)
	if more := e.Value.Bytes() - before; more != 0 {
		shard.Took(more)
		e.Value.owner.owns(0, more)
	}
	return true
}

// add makes a key that the region owns; nil: there is no room for it.
func (s *Store) add(shard *table.Shard[key], hash uint64, now limit.Micros, r *region, a *engine.Ask) (e *table.Entry[key]) {
	for range 2 {
		if s.mayOwn(r, a.Key) {
			if e = shard.Add(hash, a.Policy, a.Key); e != nil {
				e.Value.owner = r
				r.owns(1, keyBytes+len(a.Key))
				return e
			}
		}
		forget(shard, roomStep, func(e *table.Entry[key]) bool { return e.Value.Fresh(now) })
	}
	return nil
}

// forget forgets those of the next n keys of a shard that may be forgotten.
func forget(shard *table.Shard[key], n int, may func(*table.Entry[key]) bool) {
	shard.Scan(n, func(e *table.Entry[key]) {
		if may(e) {
			remove(shard, e)
		}
	})
}

func remove(shard *table.Shard[key], e *table.Entry[key]) {
	v := &e.Value
	v.owner.owns(-1, -keyBytes-len(e.Key())-v.Bytes())
	shard.Took(-v.Bytes())
	shard.Remove(e)
}

// forgetReset forgets what regions have of a key whose counter was reset: the limit is divided anew. Another aggregator on
// the same Redis goes on with what it knows.
func (s *Store) forgetReset(a *engine.Ask) {
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	if e := shard.Find(hash, a.Policy, a.Key); e != nil {
		remove(shard, e)
	}
}

// partOf is a region's part of a limit: its configured share, if it has one, else an equal one.
func (s *Store) partOf(p *engine.Policy, name string) int64 {
	if p.Whole != nil {
		p = p.Whole
	}
	if share := p.Regions.Share(name, p.Terms.Capacity); share > 0 {
		return share
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return p.Terms.Capacity / int64(max(len(s.regions), leastRegions))
}

// withoutKey is what of an ask does not count where nothing is known of its key.
func withoutKey(w *lease.Want) fair.Dropped {
	d := fair.Dropped{Returned: w.Unused, Owed: w.Overdrawn, Penalty: true}
	w.Unused, w.Overdrawn, w.Denied = 0, 0, 0
	return d
}

// drop takes out of an ask what does not count, counts that and logs it.
func (s *Store) drop(r *region, a *engine.Ask, d fair.Dropped) {
	if d.Penalty && a.Policy.Limit.ChargesRejected() {
		a.Policy = a.Policy.WithoutPenalty()
	}
	if d.Returned == 0 && d.Owed == 0 {
		return
	}
	r.notHad.Add(float64(d.Returned))
	r.overdrawn.Add(float64(d.Owed))
	if r.logged.Now() {
		s.config.Log.Warn("region reports more units than it may",
			"region", a.Region, "rule", a.Policy.Rule, "given_back", d.Returned, "owed", d.Owed,
			"remedy", "nothing, if the aggregator has restarted, the key was reset or the region was cut off; else look for the caller in the logs of the region")
	}
}

// reject counts an ask for a key for which there is no room.
func (s *Store) reject(r *region, a *engine.Ask) {
	r.keysRejected.Inc()
	if r.logged.Now() {
		s.config.Log.Warn("region has no room for more keys; new ones are unavailable", "region", a.Region, "rule", a.Policy.Rule,
			"keys", r.keys.Load(), "remedy", "give the aggregator more memory (--max-memory, --max-keys), or find out who sends so many keys")
	}
}
