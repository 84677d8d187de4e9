package sim

import (
	"math/bits"

	"github.com/weirlimit/weir/internal/limit"
)

// asker is a PoP and a key.
type asker struct {
	pop string
	key counterKey
}

// denials are the times of the asks that were refused within the last 10 s.
type denials struct{ times []limit.Micros }

// denied counts an ask that was refused, and checks promise 5: at most ten a
// second, averaged over 10 s, and log2 of the limit in each window.
func (ref *referee) denied(pop string, e *book) {
	id := asker{pop, e.key}
	d := ref.denials[id]
	if d == nil {
		d = &denials{}
		ref.denials[id] = d
	}
	d.times = append(d.times, ref.w.now)
	for d.times[0] <= ref.w.now-10*limit.Second {
		d.times = d.times[1:]
	}
	s := e.rule.Limit.Spec()
	windows := int(10*limit.Second/max(s.Period, 1)) + 1
	if most := 100 + windows*bits.Len64(uint64(e.rule.Terms.Capacity)); len(d.times) > most {
		ref.fail(5, "%v at %s: %d asks were refused within 10 s, at most %d may be", e.key, pop, len(d.times), most)
	}
}

// checkMemory checks promise 8.
func (ref *referee) checkMemory(who string, entries, most int) {
	if most > 0 && entries > most {
		ref.fail(8, "%s keeps %d keys or bytes, at most %d may be", who, entries, most)
	}
}
