package drive

import (
	"math"
	"math/rand/v2"
	"sort"
)

// MaxKeys bounds the numbers that a [Keys] may return: a key is written into the
// request with eight digits.
const MaxKeys = 100_000_000

// Keys returns the number of the key that the next request carries, from 0 to
// MaxKeys-1. It is called from one goroutine.
type Keys func() uint32

// Hot is one key for every request.
func Hot() Keys { return func() uint32 { return 0 } }

// Uniform draws from n keys, each as likely as any other.
func Uniform(n uint32, seed uint64) Keys {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	return func() uint32 { return rng.Uint32N(n) }
}

// Each returns 0, 1, 2 and so on: every key once.
func Each() Keys {
	next := uint32(0)
	return func() uint32 {
		k := next
		next = (next + 1) % MaxKeys
		return k
	}
}

// Zipf draws from n keys; the key of rank i (key i-1) is drawn in proportion to
// 1/i^s. Unlike rand.Zipf it takes an s of 1 and below, where measured traffic
// lies. A draw is a binary search in a table of 8 bytes per key.
func Zipf(n int, s float64, seed uint64) Keys {
	below := make([]float64, n) // below[i]: probability of a key up to i
	var sum float64
	for i := range below {
		sum += math.Pow(float64(i+1), -s)
		below[i] = sum
	}
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	return func() uint32 {
		x := rng.Float64() * sum
		return uint32(sort.SearchFloat64s(below, math.Nextafter(x, math.Inf(1))))
	}
}
