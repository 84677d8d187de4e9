package twin

import (
	"cmp"
	"os"
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
	{mode{"memory", "charge-rejected"}, 100},
	{mode{"redis", ""}, 200},
	{mode{"redis", "exact"}, 50},
	{mode{"redis", "charge-rejected"}, 50},
	{mode{"cluster", ""}, 50},
	{mode{"cluster", "exact"}, 10},
	{mode{"cluster", "charge-rejected"}, 10},
}

func (m mode) String() string {
	return m.store + "-" + cmp.Or(m.flags, "default")
}

// Weir answers what envoyproxy/ratelimit answers, in each mode, but for what the list has.
func TestTwin(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	if yearBegins() {
		t.Skip("a year begins, and counters of years with it")
	}
	played, explained := 0, map[string]int{}
	for _, p := range plans {
		t.Run(p.String(), func(t *testing.T) { played++; compareAll(t, p.mode, p.configurations, explained) })
	}
	for _, l := range lines {
		if explained[l.text] == 0 && played == len(plans) {
			t.Errorf("no answer needs %q: delete the line", l.text)
		}
	}
}

// compareAll plays so many configurations, and counts how many answers were explained, by line.
func compareAll(t *testing.T, m mode, n int, explained map[string]int) {
	scenarios, configs := make([]scenario, n), make([][]*node, n)
	for i := range scenarios {
		scenarios[i] = scenarioOf(uint64(i))
		configs[i] = scenarios[i].config
	}
	p := start(t, m, configs...)
	const atOnce = 8 // many wait for a lease to come back
	var next, different atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(scenarios); i = int(next.Add(1)) - 1 {
				if d := p.play(t, domainOf(i), configs[i], scenarios[i].requests); d != nil && different.Add(1) <= 3 {
					t.Error(report(t, scenarios[i], d))
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d configurations, %d requests, %d of the configurations differ", n, p.asked.Load(), different.Load())
	for text, n := range p.explained {
		explained[text] += n
	}
}

// Each line is one of the list.
func TestLinesAreInTheList(t *testing.T) {
	readme := fatal.Get(os.ReadFile("../../docs/ratelimit-service.md"))(t)
	list := strings.Join(strings.Fields(string(readme)), " ")
	for _, l := range lines {
		if !strings.Contains(list, l.text) {
			t.Errorf("docs/ratelimit-service.md does not have %q", l.text)
		}
	}
}
