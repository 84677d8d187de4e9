package service

import (
	"hash/maphash"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// keyLimits are the policies of keys that have a limit of their own, by a hash of the key;
// nil: no key has. The keys themselves are not kept. The seed is random, so that nobody
// can choose a key with the hash of another one, and of 64 bits none meets by chance.
type keyLimits map[uint64]*engine.Policy

var keySeed = maphash.MakeSeed()

// newKeyLimits makes the policies of the keys of a rule, whose own is base. They count on the
// counters that the keys have without them. Keys with the same limit share a policy.
func newKeyLimits(r *rule.Rule, base *engine.Policy) keyLimits {
	if len(r.Keys) == 0 {
		return nil
	}
	type amount struct{ count, burst int64 }
	made := map[amount]*engine.Policy{}
	out := make(keyLimits, len(r.Keys))
	r.EachKey(func(key []byte, own limit.Spec) {
		of := amount{own.Count, own.Burst}
		p := made[of]
		if p == nil {
			p = base.Resized(own.Count, own.Burst)
			made[of] = p
		}
		out[maphash.Bytes(keySeed, key)] = p
	})
	return out
}

// find is the policy of a key, shortened by [rule.ShortKey]; nil: it has none of its own.
func (k keyLimits) find(key []byte) *engine.Policy {
	if k == nil {
		return nil
	}
	return k[maphash.Bytes(keySeed, key)]
}
