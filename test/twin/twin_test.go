package twin

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// plan is how many configurations are played in a mode: in few, and at full length.
type plan struct {
	mode
	few, all int
}

var plans = []plan{
	{mode{"memory", 1, ""}, 100, 2000},
	{mode{"memory", 1, "exact"}, 25, 2000},
	{mode{"memory", 1, "charge-denied"}, 25, 2000},
	{mode{"redis", 1, ""}, 100, 2000},
	{mode{"redis", 1, "exact"}, 25, 2000},
	{mode{"redis", 1, "charge-denied"}, 25, 2000},
	{mode{"cluster", 1, ""}, 25, 2000},
	{mode{"cluster", 1, "exact"}, 0, 2000},
	{mode{"cluster", 1, "charge-denied"}, 0, 2000},
}

func (m mode) String() string {
	return fmt.Sprintf("%s-%d-%s", m.store, m.replicas, cmp.Or(m.flags, "default"))
}

// all of the grammar.
var all = features{shadow: true, quota: true, costs: true, checks: true, limits: true, duplicates: true, odd: true}

// features is what of the grammar can be compared. With denials charged, descriptors of
// one counter are charged in no order; through leases those in quota and shadow mode are.
func (m mode) features() features {
	f := all
	f.enforced = m.store != "memory"
	f.duplicates = f.duplicates && !m.chargesDenied()
	return f
}

// Weir answers what envoyproxy/ratelimit answers, in each mode, but for what the list
// says.
func TestTwin(t *testing.T) {
	long := os.Getenv("WEIR_LONG") != ""
	for _, p := range plans {
		n := p.few
		if long {
			n = p.all
		}
		if n == 0 {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			compareAll(t, p.mode, n)
		})
	}
}

// compareAll plays so many configurations.
func compareAll(t *testing.T, m mode, n int) {
	from := uint64(0)
	if seed := os.Getenv("WEIR_TWIN_SEED"); seed != "" {
		number, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatalf("WEIR_TWIN_SEED: %v", err)
		}
		from, n = number, 1
	}
	scenarios, configs := make([]scenario, n), make([][]*node, n)
	for i := range scenarios {
		scenarios[i] = scenarioOf(from+uint64(i), m.features())
		configs[i] = scenarios[i].config
	}
	p := start(t, m, configs...)
	type failure struct {
		scenario
		*difference
	}
	var found []failure
	const shown, atOnce = 3, 8
	var mu sync.Mutex
	different, kinds, next := 0, map[string]int{}, 0
	var all sync.WaitGroup
	for range atOnce { // many wait for a lease to come back
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				d := p.play(t, domainOf(i), configs[i], scenarios[i].requests)
				if d == nil {
					continue
				}
				mu.Lock()
				different++
				kind := regexp.MustCompile(`\d+`).ReplaceAllString(d.what, "")
				if kinds[kind]++; kinds[kind] == 1 && len(kinds) <= shown {
					found = append(found, failure{scenarios[i], d})
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, f := range found {
		small, d := p.shrink(t, f.scenario, f.difference)
		t.Error(report(t, small, d))
	}
	t.Logf("%d configurations, %d requests, %d of the configurations differ", n, p.asked.Load(), different)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Errorf("%d configurations differ in %s", kinds[kind], kind)
	}
	for _, l := range lines {
		t.Logf("%6d answers by %s", p.explained[l.says], l.says)
	}
}

// Each line is one of the list.
func TestLinesAreInTheList(t *testing.T) {
	readme, err := os.ReadFile("../../regional/rls/README.md")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Join(strings.Fields(string(readme)), " ")
	for _, l := range lines {
		if !strings.Contains(list, l.says) {
			t.Errorf("regional/rls/README.md does not say %q", l.says)
		}
	}
}
