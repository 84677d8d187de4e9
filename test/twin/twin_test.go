package twin

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

const hour, year = 3600, 365 * 86_400 // in seconds

// yearBegins reports whether a window of a year begins in this hour or the next. When a year begins, which is every 365 days
// from 1970 on, windows of a year and of an hour begin together, for which envoyproxy/ratelimit has one counter.
func yearBegins() bool {
	since := time.Now().Unix() % year
	return since < hour || since > year-2*hour
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
		if explained[l.name] == 0 && played == len(plans) {
			t.Errorf("no answer needs %q: delete the line", l.name)
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
	p.explained = explained
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
}

// Each line is one of the list.
func TestLinesAreInTheList(t *testing.T) {
	page := string(fatal.Get(os.ReadFile("../../docs/ratelimit-service.md"))(t))
	for _, l := range lines {
		if !strings.Contains(page, "\n- **"+l.name+"**") {
			t.Errorf("docs/ratelimit-service.md does not have %q", l.name)
		}
	}
}

var (
	setting = regexp.MustCompile("envconfig:\"([A-Z_]+)\"")
	span    = regexp.MustCompile("`([A-Z_]+\\*?)`")
)

// Who comes from envoyproxy/ratelimit finds each of its settings in docs/ratelimit-service.md: what it
// is called here, or that there is none. NAME_* there stands for all that begin so.
func TestSettingsAreInTheList(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit")
	cmd.Dir, cmd.Stderr = "../load/peers", os.Stderr
	dir := fatal.Get(cmd.Output())(t)
	source := fatal.Get(os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "src/settings/settings.go")))(t)
	readme := fatal.Get(os.ReadFile("../../docs/ratelimit-service.md"))(t)
	settings, listed := setting.FindAllStringSubmatch(string(source), -1), span.FindAllStringSubmatch(string(readme), -1)
	if len(settings) < 100 || len(listed) < 50 {
		t.Fatalf("settings: %d, on the page: %d", len(settings), len(listed))
	}
	for _, s := range settings {
		if !slices.ContainsFunc(listed, func(l []string) bool {
			begin, family := strings.CutSuffix(l[1], "*")
			return l[1] == s[1] || family && strings.HasPrefix(s[1], begin)
		}) {
			t.Errorf("docs/ratelimit-service.md does not state what becomes of %s", s[1])
		}
	}
}
