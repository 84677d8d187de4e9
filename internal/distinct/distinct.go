// Package distinct estimates how many different keys it was given, in 4 KiB: HyperLogLog of Flajolet, Fusy, Gandouet and
// Meunier (2007), with the estimator of Ertl (2017), which needs no correction for small counts.
//
// The standard error is 1.6 %. So of 1,000 estimates 997 differ from the true number by at most [ErrorPercent], or by one. A client that chooses
// its keys freely can choose keys that make the estimate wrong: the hash has no secret, so that the keys of all PoPs can be merged.
//
// The package is pure. Nothing in it is safe for concurrent use.
package distinct

import (
	"math"
	"math/bits"
)

const (
	// ErrorPercent is three standard errors, in percent.
	ErrorPercent = 5
	// Registers is the size of [Keys], in bytes.
	Registers = 1 << log2
	log2      = 12
	highest   = 64 - log2 + 1 // value of a register
)

// Keys stands for a set of keys. The zero value is the empty set.
type Keys [Registers]uint8

// Add adds the key with this hash, such as FNV-1a: it need not be well mixed.
func (k *Keys) Add(hash uint64) {
	hash = (hash ^ hash>>33) * 0xff51afd7ed558ccd // the end of MurmurHash3
	hash = (hash ^ hash>>33) * 0xc4ceb9fe1a85ec53
	hash ^= hash >> 33
	const lowest = 1 << (log2 - 1) // there is a bit in any case
	register := &k[hash>>(64-log2)]
	*register = max(*register, uint8(bits.LeadingZeros64(hash<<log2|lowest)+1))
}

// Merge adds the keys of another set, of which these are the registers. False, and nothing is added, if that is no set.
func (k *Keys) Merge(registers []byte) bool {
	if len(registers) != Registers {
		return false
	}
	for i, r := range registers {
		k[i] = max(k[i], min(r, highest))
	}
	return true
}

// Count is the estimated number of keys.
func (k *Keys) Count() uint64 {
	sum, zeros := 0.0, 0
	for _, r := range k {
		if r == 0 {
			zeros++
		} else {
			sum += math.Ldexp(1, -int(r))
		}
	}
	if zeros == Registers {
		return 0
	}
	x := float64(zeros) / Registers
	empty := x
	for y, before := 1.0, -1.0; empty != before; y *= 2 {
		x *= x
		before = empty
		empty += x * y
	}
	const most = 1 << 53
	return uint64(min(math.Round(Registers*Registers/(2*math.Ln2)/(sum+Registers*empty)), most))
}
