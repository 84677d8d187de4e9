package measure

import (
	"math/bits"
	"time"
)

const (
	histSubBits = 6 // 64 steps per power of two: a quantile is at most 1.6 % too high
	histSub     = 1 << histSubBits
	histBuckets = (64 - histSubBits) * histSub
)

// Hist counts durations in buckets whose width grows with the value, so that it
// costs 30 KB whatever is put into it. The zero value is empty. It is not safe for concurrent use.
type Hist struct {
	n       uint64
	buckets [histBuckets]uint32
}

// Add counts d; a negative duration counts as 0.
func (h *Hist) Add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(d, 0)))]++
	h.n++
}

// Count is how many durations were added.
func (h *Hist) Count() uint64 { return h.n }

// Quantile is the smallest bucket bound that at least the fraction q of the
// durations do not exceed; 0 when the histogram is empty. q is from 0 to 1.
func (h *Hist) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.n)+0.999999), 1)
	var seen uint64
	for i, n := range h.buckets {
		if seen += uint64(n); seen >= rank {
			return time.Duration(bucketTop(i))
		}
	}
	return time.Duration(bucketTop(histBuckets - 1))
}

// bucketOf maps v to its bucket: values below histSub are exact, above that the
// bucket is the power of two and the histSubBits bits that follow the first.
func bucketOf(v uint64) int {
	if v < histSub {
		return int(v)
	}
	shift := bits.Len64(v) - histSubBits - 1
	return (shift+1)*histSub + int(v>>shift) - histSub
}

// bucketTop is the largest value of bucket i.
func bucketTop(i int) uint64 {
	if i < histSub {
		return uint64(i)
	}
	shift := i/histSub - 1
	return uint64(i%histSub+histSub+1)<<shift - 1
}
