package distinct_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/distinct"
	"github.com/weirlimit/weir/internal/rule"
)

// Of 60 sets of each size, 59 estimates are wrong by at most the stated error or one key, and none by 7 %. The keys are as alike as the
// addresses of one network.
func TestCount(t *testing.T) {
	for _, size := range []int{0, 1, 10, 100, 1000, 3000, 5000, 10_000, 30_000} {
		wrong := 0
		for set := range 60 {
			var keys distinct.Keys
			for i := range size {
				hash := rule.HashText(fmt.Appendf(nil, "%d.%d", set, i))
				keys.Add(hash)
				keys.Add(hash)
			}
			off := math.Abs(float64(keys.Count()) - float64(size))
			if off > max(1, float64(size)*distinct.ErrorPercent/100) {
				wrong++
			}
			if off > max(1, float64(size)*7/100) {
				t.Errorf("%d of %d keys", keys.Count(), size)
			}
		}
		if wrong > 1 {
			t.Errorf("%d estimates of 60 for %d keys are wrong by more than %d %%", wrong, size, distinct.ErrorPercent)
		}
	}
}

// Merged sets count the keys of each once. What is no set changes nothing, and registers of any value make no number.
func TestMerge(t *testing.T) {
	var a, b, both distinct.Keys
	for i := range 6000 {
		hash := rule.HashText(fmt.Append(nil, i))
		both.Add(hash)
		if i < 4000 {
			a.Add(hash)
		}
		if i >= 2000 {
			b.Add(hash)
		}
	}
	if !a.Merge(b[:]) || a != both {
		t.Errorf("merged sets have %d keys, want %d", a.Count(), both.Count())
	}
	if a.Merge(b[1:]) || a.Merge(nil) || a != both {
		t.Error("merged what is no set")
	}
	if !a.Merge(bytes.Repeat([]byte{255}, distinct.Registers)) || a.Count() != 1<<53 {
		t.Errorf("%d keys", a.Count())
	}
}
