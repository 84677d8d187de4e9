package service_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// keyRules is a rule of 10 an hour with overrides.
func keyRules(overrides string) string {
	return `rules: [{ name: a, key: [{ header: x-user }], limit: 10/1h, algorithm: fixed_window, consistency: exact,
		overrides: [{ when: { header: { x-tier: gold } }, limit: 30/1h }` + overrides + "] }]\n"
}

const acmeHas20 = ", { key: [acme], limit: 20/1h }, { key: [shut], limit: 0/1h }"

// TestKeyLimitChanges: a key stays on its counter when it gets a limit of its own, another
// one, or loses it: at most the larger one is admitted.
func TestKeyLimitChanges(t *testing.T) {
	r := newRegion(t)
	r.setRules(keyRules(""))
	used := int64(0)
	for _, step := range []struct {
		overrides string
		limit     int64
	}{{"", 10}, {acmeHas20, 20}, {", { key: [acme], limit: 15/1h }", 15}, {", { key: [acme], limit: 25/1h }", 25}, {"", 10}} {
		r.setRules(keyRules(step.overrides))
		for range 30 {
			used += r.grants(want("a", "acme", 1))[0].Granted
		}
		r.advance(2 * limit.Second)
		if most := max(used, step.limit); used != most {
			t.Errorf("limit %d: %d used", step.limit, used)
		}
	}
	if used != 25 {
		t.Errorf("%d used, want the largest limit, 25", used)
	}
}

// TestKeyLimitsAgainstTwin: random requests for random keys, of which some have a limit of
// their own, get what a count for each key gives.
func TestKeyLimitsAgainstTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := newRegion(t)
	r.advance(limit.Hour/2 - limit.Minute) // all in one hour
	limits, used := map[string]int64{}, map[string]int64{}
	for i := range 600 {
		if i%100 == 0 {
			var overrides strings.Builder
			clear(limits)
			for k := range 40 {
				if key := fmt.Sprintf("user-%d|%d", k, k); random.IntN(2) == 0 {
					limits[strings.ReplaceAll(key, "|", `\|`)] = random.Int64N(20)
					fmt.Fprintf(&overrides, ", { key: [%q], limit: %d/1h }", key, limits[strings.ReplaceAll(key, "|", `\|`)])
				}
			}
			r.setRules(keyRules(overrides.String()))
		}
		k := random.IntN(50)
		key, units := fmt.Sprintf(`user-%d\|%d`, k, k), 1+random.Int64N(4)
		most, own := limits[key]
		if !own {
			most = 10
		}
		granted := int64(0)
		if used[key]+units <= most {
			granted = units
		}
		if g := r.grants(want("a", key, units))[0]; g.Granted != granted || g.Limit != most {
			t.Fatalf("request %d for %d of %s: %+v, used %d of %d", i, units, key, g, used[key], most)
		}
		used[key] += granted
	}
}

// manyKeys is a rule with so many limits of single keys, of a few sizes.
func manyKeys(t testing.TB, n int) *rule.Set {
	per := func(count int) limit.Spec { return limit.Spec{Count: int64(count), Period: limit.Hour} }
	r := rule.Rule{Name: "a", Key: []rule.Part{{{From: rule.FromHeader, Name: "x-user"}}}, Limits: []rule.Variant{{Limit: per(10)}}}
	for i := range n {
		r.Keys = append(r.Keys, rule.KeyLimit{Key: []string{fmt.Sprintf("customer-%d", i)}, Limit: per(20 + i%50), Until: limit.Micros(4e9+i) * limit.Second, Name: fmt.Sprintf("contract-%d", i)})
	}
	set := fatal.Get(checktest.New([]rule.Rule{r}))(t)
	return set
}

// TestKeyLimitsAreSmall: 100,000 of them take less than 100 bytes each while rules are in force, and
// finding one takes no memory.
func TestKeyLimitsAreSmall(t *testing.T) {
	const n = 100_000
	s := service.NewService(service.Config{})
	before := heap()
	fatal.If(t, s.SetRules(manyKeys(t, n)))
	size := float64(heap()-before) / n
	t.Logf("%.0f bytes each", size)
	if size > 100 {
		t.Errorf("%.0f bytes each, want at most 100", size)
	}
	key := []byte("customer-99999")
	if p := s.Policy("a", 0, key); p.Limit.Spec().Count != 20+99999%50 {
		t.Errorf("%s has %d", key, p.Limit.Spec().Count)
	}
	if n := testing.AllocsPerRun(100, func() { s.Policy("a", 0, key) }); n > 0 {
		t.Errorf("%v allocations to find a limit", n)
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
