package compose

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// rules are those of the test. Windows begin with the first request and last a day, so that none
// ends within the test; those of `cut` are short, since shares change with windows. What cannot
// be decided is rejected: a busy machine admits less, never more.
func rules(marker int) string {
	return fmt.Sprintf(`
regions: { eu: 1, us: 1 }
rules:
  - { name: marker, match: { path: { prefix: /marker/ } }, key: [path], limit: %d/1d, timeout: 1s, on_failure: allow }
  - { name: pop, match: { path: { prefix: /pop/ } }, key: [path], limit: 20/1d, algorithm: fixed_window, align: first_request, scope: pop }
  - { name: region, match: { path: { prefix: /region/ } }, key: [path], limit: 60/1d, algorithm: fixed_window, align: first_request, timeout: 1s, on_failure: { action: deny, status: 503 } }
  - { name: global, match: { path: { prefix: /global/ } }, key: [path], limit: 100/1d, algorithm: fixed_window, align: first_request, scope: global, consistency: leased, timeout: 1s, on_failure: { action: deny, status: 503 } }
  - { name: traced, match: { path: { prefix: /global/trace- } }, key: [path], limit: 50/1d, consistency: leased, timeout: 1s }
  - { name: open, match: { path: { prefix: /open/ } }, key: [path], limit: 5/1d, algorithm: fixed_window, align: first_request, timeout: 200ms, on_failure: allow }
  - { name: cut, match: { path: { prefix: /cut/ } }, key: [path], limit: 40/%s, algorithm: fixed_window, scope: global, consistency: leased, timeout: 1s, on_failure: local }
`, marker, cutWindow)
}

// run is part of every key, so that the test can be repeated while the stack is up.
var run = fmt.Sprint(time.Now().UnixNano())

// TestCompose proves the stack from outside. Its parts build on each other.
func TestCompose(t *testing.T) {
	if os.Getenv("WEIR_COMPOSE") == "" {
		t.Skip("make compose-test starts the stack that this test drives")
	}
	for _, part := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"what docs/compose.md shows first", shown},
		{"the admin API", operated},
		{"limits of a PoP, of a region, and of all regions", limitsHold},
		{"one PoP with the native module", nativePoP},
		{"a trace", traced},
		{"Redis of one region is stopped", redisStopped},
		{"the home region is lost", homeLost},
	} {
		if !t.Run(part.name, part.run) {
			break
		}
	}
}

// The loop in docs/compose.md shows the limit of compose/rules.yaml: 40 per minute in both regions.
// Where a minute ends within it, or a lease lies at a PoP that asks no more, or a busy machine made
// a PoP decide alone, another minute shows it. Each begins with nothing spent.
func shown(t *testing.T) {
	loop := regexp.MustCompile(`(?m)^    (for .*)$`).FindStringSubmatch(content(t, "docs/compose.md"))
	if loop == nil {
		t.Fatal("docs/compose.md has no loop")
	}
	var seen []int
	for range 6 { // minutes
		n := strings.Count(proc.Run(t, exec.CommandContext(t.Context(), "bash", "-c", loop[1])), "200")
		if seen = append(seen, n); n == 40 {
			t.Logf("the loop showed %v", seen)
			return
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
	}
	t.Errorf("of the 60 requests %v were admitted, want 40 in a minute", seen)
}

// What docs/compose.md shows of the admin API: all members are well, and a change is in force.
func operated(t *testing.T) {
	command := regexp.MustCompile(`(?m)^    (docker compose exec )(.*)$`)
	commands := command.FindAllStringSubmatch(content(t, "docs/compose.md"), -1)
	if len(commands) == 0 {
		t.Fatal("docs/compose.md has no commands")
	}
	proc.Await(t, patience, "all members are well", func() string {
		out, err := exec.CommandContext(t.Context(), "docker", "compose", "exec", "-T", "aggregator", "/weir", "status", "--admin", "127.0.0.1:8090").CombinedOutput()
		if err != nil {
			return fmt.Sprint(err, string(out))
		}
		return ""
	})
	for _, c := range commands {
		bash(t, c[1]+"-T "+c[2])
	}
}

// Rules reach every PoP. Each PoP admits the whole limit of a rule of its scope; the PoPs of a region, and those of both
// regions, share theirs, whichever is asked.
func limitsHold(t *testing.T) {
	apply(t, consulAddr, 10001, both)
	apply(t, consulAddr, 10002, both)
	for _, l := range []struct {
		path  string
		limit int
		pops  []pop
	}{{"/pop/", 20, eu[:1]}, {"/pop/", 20, us[1:]}, {"/region/", 60, eu}, {"/region/", 60, us}, {"/global/", 100, both}} {
		limitHolds(t, l.pops, l.path+"a-"+run, l.limit)
	}
}

// A PoP with the native module and one with the WASM module share the limit of their region.
func nativePoP(t *testing.T) {
	again := func() { bash(t, "docker compose up --detach --wait --no-build --no-deps eu-pop-2") }
	t.Cleanup(again) // when the variable is again what it was
	t.Setenv("WEIR_FILTER", "native")
	again()
	limitHolds(t, eu, "/region/native-"+run, 60)
}

// While Redis of one region is unavailable, each rule decides what no lease decides, keys that were rejected stay rejected,
// and the other region notices nothing. Afterwards limits hold again.
func redisStopped(t *testing.T) {
	bash(t, "docker compose stop -t 2 us-redis-1 us-redis-2 us-redis-3")
	proc.Await(t, patience, "us rejects by on_failure", func() string {
		if status, _ := get(t, us[0], fmt.Sprint("/region/away-", time.Now().UnixNano())); status != http.StatusServiceUnavailable {
			return fmt.Sprint(status)
		}
		return ""
	})
	for path, want := range map[string]int{"/open/away-": http.StatusOK, "/region/a-": http.StatusTooManyRequests} {
		for range 20 {
			if status, _ := get(t, us[0], path+run); status != want {
				t.Errorf("%s answers %d, want %d", path, status, want)
			}
		}
	}
	limitHolds(t, eu, "/region/b-"+run, 60)
	bash(t, "docker compose start us-redis-1 us-redis-2 us-redis-3")
	proc.Await(t, patience, "us decides again", func() string {
		for i, p := range us {
			if status, _ := get(t, p, fmt.Sprint("/region/back-", i, time.Now().UnixNano())); status != http.StatusOK {
				return fmt.Sprint(p.name, ": ", status)
			}
		}
		return ""
	})
	limitHolds(t, us, "/region/c-"+run, 60)
}
