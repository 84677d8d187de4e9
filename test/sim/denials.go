package sim

import (
	"math/bits"

	"github.com/weirlimit/weir/internal/limit"
)

// denied counts an ask that was refused, and checks promise 5: at most ten a
// second, averaged over 10 s, and log2 of the limit in each window.
func (ref *referee) denied(b *book) {
	b.refused = append(b.refused, ref.w.now)
	for b.refused[0] <= ref.w.now-10*limit.Second {
		b.refused = b.refused[1:]
	}
	windows := int(10*limit.Second/max(b.rule.Spec.Period, 1)) + 1
	if most := 100 + windows*bits.Len64(uint64(b.rule.Terms.Capacity)); len(b.refused) > most {
		ref.fail(5, "%v at %s: %d asks were refused within 10 s, at most %d may be", b.key, b.p.name, len(b.refused), most)
	}
}

// checkMemory checks promise 8.
func (ref *referee) checkMemory(who string, entries, most int) {
	if most > 0 && entries > most {
		ref.fail(8, "%s keeps %d keys or bytes, at most %d may be", who, entries, most)
	}
}
