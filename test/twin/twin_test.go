package twin

import (
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// plans have how many configurations are played in a mode.
var plans = []struct {
	mode
	configurations int
}{
	{mode{"memory", ""}, 200},
	{mode{"memory", "exact"}, 50},
	{mode{"memory", "charge-denied"}, 100},
	{mode{"redis", ""}, 200},
	{mode{"redis", "exact"}, 50},
	{mode{"redis", "charge-denied"}, 50},
	{mode{"cluster", ""}, 50},
	{mode{"cluster", "exact"}, 10},
	{mode{"cluster", "charge-denied"}, 10},
}

func (m mode) String() string {
	return m.store + "-" + cmp.Or(m.flags, "default")
}

// Weir answers what envoyproxy/ratelimit answers, in each mode, but for what the list
// has.
func TestTwin(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	played, explained := 0, map[string]int{}
	for _, p := range plans {
		t.Run(p.String(), func(t *testing.T) {
			for text, n := range compareAll(t, p.mode, p.configurations) {
				explained[text] += n
			}
			played++
		})
	}
	if played < len(plans) || os.Getenv("WEIR_TWIN_SEED") != "" {
		return
	}
	for _, l := range lines {
		if explained[l.text] == 0 {
			t.Errorf("no answer needs %q: delete the line", l.text)
		}
	}
}

// tally is what became of the configurations of a mode.
type tally struct {
	requests  int64
	different int
	explained map[string]int // answers, by line

	mu    sync.Mutex
	kinds map[string][]uint64 // seeds of configurations, by what differs
	found []failure           // the first of each kind
}

type failure struct {
	scenario
	*difference
}

// compareAll plays so many configurations, and returns how many answers were explained, by
// line.
func compareAll(t *testing.T, m mode, n int) map[string]int {
	from := uint64(0)
	if seed := os.Getenv("WEIR_TWIN_SEED"); seed != "" {
		number, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatalf("WEIR_TWIN_SEED: %v", err)
		}
		from, n = number, 1
	}
	sum := &tally{explained: map[string]int{}, kinds: map[string][]uint64{}}
	scenarios := make([]scenario, n)
	for i := range scenarios {
		scenarios[i] = scenarioOf(from + uint64(i))
	}
	sum.compare(t, m, scenarios)
	t.Logf("%d configurations, %d requests, %d of the configurations differ", n, sum.requests, sum.different)
	for _, kind := range slices.Sorted(maps.Keys(sum.kinds)) {
		slices.Sort(sum.kinds[kind])
		t.Errorf("%d configurations differ in %s, seeds %d", len(sum.kinds[kind]), kind, sum.kinds[kind])
	}
	for _, l := range lines {
		t.Logf("%6d answers by %s", sum.explained[l.text], l.text)
	}
	return sum.explained
}

// compare plays scenarios, on services of their own.
func (s *tally) compare(t *testing.T, m mode, scenarios []scenario) {
	configs := make([][]*node, len(scenarios))
	for i := range scenarios {
		configs[i] = scenarios[i].config
	}
	p := start(t, m, configs...)
	const atOnce = 8 // many wait for a lease to come back
	var next atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(scenarios); i = int(next.Add(1)) - 1 {
				if d := p.play(t, domainOf(i), configs[i], scenarios[i].requests); d != nil {
					s.note(failure{scenarios[i], d})
				}
			}
		})
	}
	all.Wait()
	for _, f := range s.found {
		t.Error(report(t, f.scenario, f.difference))
	}
	s.found = nil
	s.requests += p.asked.Load()
	for text, n := range p.explained {
		s.explained[text] += n
	}
}

// note notes a configuration that differs.
func (s *tally) note(f failure) {
	const shown = 3
	s.mu.Lock()
	defer s.mu.Unlock()
	s.different++
	kind := regexp.MustCompile(`\d+`).ReplaceAllString(f.what, "")
	if s.kinds[kind] = append(s.kinds[kind], f.seed); len(s.kinds[kind]) == 1 && len(s.kinds) <= shown {
		s.found = append(s.found, f)
	}
}

// Each line is one of the list.
func TestLinesAreInTheList(t *testing.T) {
	readme, err := os.ReadFile("../../internal/envoyrls/README.md")
	fatal.If(t, err)
	list := strings.Join(strings.Fields(string(readme)), " ")
	for _, l := range lines {
		if !strings.Contains(list, l.text) {
			t.Errorf("internal/envoyrls/README.md does not have %q", l.text)
		}
	}
}
