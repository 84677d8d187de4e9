// Package e2e proves the guarantees on the real thing: Envoys with the built
// filter, the built region, real connections, real faults.
//
// Each scenario states its bound and where the bound comes from. Counts are bounded; speed is not: a scenario may take longer on a busy
// machine, but it does not fail for that.
//
// With -short it has one test for each guarantee that only real programs show, and scenarios of a small form that
// puts the same pressure on the same mechanism.
//
// What needs no Envoy is in test/tiers, and what needs three regions in test/regions. Tests that wait more than they
// compute run beside each other, after all others ([testing.T.Parallel]). A test that counts under load, or has
// timeouts of less than a second, has the machine for itself.
package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// TestMain lets six tests run at once, also on a machine of two cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // a flag of the command line replaces it
	m.Run()
}

// rule is a rule that counts the requests to /NAME by user in fixed windows, with these fields besides.
func rule(name, fields string) string { return userRule(name, "algorithm: fixed_window, "+fields) }

// userRule is a rule that counts the requests to /NAME by user, with these fields besides.
func userRule(name, fields string) string {
	return fmt.Sprintf("  - { name: %[1]s, match: { path: /%[1]s }, key: [{ header: x-user }], %s }\n", name, fields)
}

// onlyLong leaves to `make test-long` a test that is no guarantee's only proof.
func onlyLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
}

// orLong is a size or a time of the small form, and that of the full one.
func orLong[T any](small, full T) T {
	if testing.Short() {
		return small
	}
	return full
}

// bothModules has the first PoP of a stack run the WASM module and the second one the native module, as far as WEIR_FILTER
// does not have both run it: one world shows both, and that they share limits.
func bothModules(edit func(b *envoy.Bootstrap, native bool)) func(*envoy.Bootstrap) {
	pops := 0
	return func(b *envoy.Bootstrap) {
		native := isNative(pops)
		if pops++; native {
			b.SetNative()
		}
		edit(b, native)
	}
}

// isNative reports whether a PoP of such a stack runs the native module.
func isNative(pop int) bool { return pop == 1 || envoy.Native() }

// offer runs a load and fails the test if a request got no answer, or one that is neither 200 nor 429.
func offer(t *testing.T, l drive.Load) *drive.Result {
	t.Helper()
	tally := try(t, l)
	if n := tally.Other(200, 429); n > 0 {
		t.Fatalf("%d of %d requests got neither 200 nor 429: %v, first error: %v", n, tally.Sent(), tally.Status, tally.FirstError)
	}
	return tally
}

// try runs a load, whatever its answers are.
func try(t *testing.T, l drive.Load) *drive.Result {
	t.Helper()
	tally := fatal.Get(drive.Run(t.Context(), l))(t)
	if tally.Sent() == 0 {
		t.Fatal("the load was over before the first request")
	}
	return tally
}

// loadOf is so many requests of a user to all PoPs.
func loadOf(s *stack.Stack, path, user string, count int64) drive.Load {
	return drive.Load{Addrs: s.Addrs(), Request: drive.Get(path, "x-user", user), Count: count}
}

// background offers requests per second, each with a user of its own, until the returned function is called, which
// returns what was answered.
func background(t *testing.T, s *stack.Stack, path string, perSecond float64) (stop func() *drive.Result) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan *drive.Result, 1)
	go func() {
		r, _ := drive.Run(ctx, drive.Load{Addrs: s.Addrs(), Request: drive.GetEach(path, "x-user", "load-"), PerSecond: perSecond,
			Until: time.Now().Add(time.Hour)}) // if the test does not stop it
		got <- r
	}()
	t.Cleanup(cancel)
	return func() *drive.Result { cancel(); return <-got }
}

// spends floods a key until want units are admitted, and then once more.
func spends(t *testing.T, want int64, flood func() int64) {
	t.Helper()
	if !spent(t, want, want, flood) {
		t.Fatalf("want %d", want)
	}
}

// spent floods a key until nothing is admitted any more. One flood may end while a worker whose requests are over fetches the last
// units ahead: these come back when their lease is idle, and the next flood finds them. It is false if less than least is admitted:
// a busy machine wastes the units of answers that come too late.
func spent(t *testing.T, least, most int64, flood func() int64) bool {
	t.Helper()
	n, admitted := int64(1), int64(0)
	for end := time.Now().Add(time.Minute); n > 0 || admitted < least && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		n = flood()
		if admitted += n; admitted > most {
			t.Fatalf("admitted %d, want at most %d", admitted, most)
		}
	}
	t.Logf("admitted %d", admitted)
	return admitted >= least
}

// thrice tries a check again, with another user, if it is false. What must never be fails at once.
func thrice(t *testing.T, holds func(user string) bool) {
	t.Helper()
	for i := range 3 {
		if holds(fmt.Sprint("user-", i)) || t.Failed() {
			return
		}
	}
	t.Error("failed three times")
}

// undisturbed tries a check again, with another user, if answers came too late while it failed.
func undisturbed(t *testing.T, name string, s *stack.Stack, check func(t proc.T, user string)) {
	const late = "reason.(on_failure|timeout|error)"
	count := func() string { return fmt.Sprint(s.PoPs[0].Stats(late), s.PoPs[1].Stats(late)) }
	t.Run(name, func(t *testing.T) {
		thrice(t, func(user string) (holds bool) {
			before := count()
			defer func() {
				if failure := recover(); failure != nil {
					t.Logf("%v\n%s", failure, debug.Stack())
					time.Sleep(3 * time.Second) // workers count with their next tick
					if count() == before {
						t.Fail()
					}
				}
			}()
			check(&proc.Program{Ctx: t.Context()}, user)
			return true
		})
	})
}

// start starts a stack, and waits until every PoP has the rules of its region. One worker fetches them; the others take them over at
// their next tick, every 100 ms, which nothing shows: the rest is for a machine that is busy. No day ends soon afterwards.
func start(t *testing.T, cfg stack.Config) *stack.Stack {
	t.Helper()
	s := stack.Start(t, cfg)
	for _, p := range s.PoPs {
		proc.Eventually(t, 15*time.Second, p.Name+" has fetched the rules", func() bool {
			return p.Stat("wasmcustom.weir.calls.reason.answered") > 0
		})
	}
	time.Sleep(1500 * time.Millisecond)
	proc.AwaitDay()
	return s
}

// everywhere waits until something holds for so many connections in a row that each worker of the PoPs had some.
func everywhere(t *testing.T, what string, pops []*stack.PoP, holds func(*stack.PoP) bool) {
	t.Helper()
	proc.Together(len(pops), func(i int) {
		proc.Eventually(t, time.Minute, pops[i].Name+" has "+what, func() bool {
			for range 16 {
				if !holds(pops[i]) {
					return false
				}
			}
			return true
		})
	})
}

// awaitStat waits until a counter or gauge of a PoP has a value.
func awaitStat(t *testing.T, p *stack.PoP, stat string, want int64) {
	t.Helper()
	proc.Await(t, time.Minute, fmt.Sprintf("%s of %s is %d", stat, p.Name, want), func() string {
		if got := p.Stat(stat); got != want {
			return fmt.Sprint("it is ", got)
		}
		return ""
	})
}

// Gauges of a PoP: mistakes in its configuration, and the replicas that it calls.
const configErrors, calledReplicas = "wasmcustom.weir.config_error", "cluster.weir_region.membership_healthy"

// do sends a request over a connection of its own.
func do(t *testing.T, addr, method, path string, headers ...string) stack.Response {
	t.Helper()
	r, err := stack.Do(addr, method, path, "", headers...)
	if err != nil {
		t.Fatalf("%s %s%s: %v", method, addr, path, err)
	}
	return r
}

// expect compares an answer with its status and patterns of its headers.
func expect(t proc.T, r stack.Response, status int, headers map[string]string) {
	t.Helper()
	if r.Status != status {
		t.Errorf("status %d, want %d; body %q", r.Status, status, r.Body)
	}
	for name, pattern := range headers {
		if got := r.Header.Get(name); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: %q does not match %s", name, got, pattern)
		}
	}
}

// logs waits until a file has a line that matches each of the patterns.
func logs(t *testing.T, file string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		line := regexp.MustCompile(pattern)
		proc.Eventually(t, 10*time.Second, filepath.Base(file)+" has "+pattern, func() bool {
			text, err := os.ReadFile(file)
			return err == nil && line.Match(text)
		})
	}
}

// weirPrints runs the tool with an input, and returns what it prints. The tool has to succeed.
func weirPrints(t *testing.T, input string, args ...string) string {
	t.Helper()
	var problems bytes.Buffer
	c := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), args...)
	c.Stdin, c.Stderr = strings.NewReader(input), &problems
	out, err := c.Output()
	if err != nil {
		t.Fatalf("weir %v: %v\n%s%s", args, err, out, &problems)
	}
	return string(out)
}

// shipped is the text of a file of this repository.
func shipped(t *testing.T, path string) string {
	t.Helper()
	return string(fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), path)))(t))
}

// compiled returns rules as the plugin configuration takes them.
func compiled(t *testing.T, rules string) rawJSON {
	t.Helper()
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte(rules)))(t)
	return set.Encode()
}

// sent is a request and the status that it gets.
type sent struct {
	path    string
	headers []string
	status  int
}

func sends(t *testing.T, addr string, requests []sent) {
	for i, c := range requests {
		if got := do(t, addr, http.MethodGet, c.path, c.headers...).Status; got != c.status {
			t.Errorf("request %d, %s %q: status %d, want %d", i, c.path, c.headers, got, c.status)
		}
	}
}

// A header that is sent several times is one value, joined as Envoy joins them, whatever else the filter reads.
var repeated = []sent{
	{"/user", []string{"x-user", "ann"}, 200},
	{"/user", []string{"x-user", "ann"}, 429},
	{"/user", []string{"x-user", "ann", "x-user", "bob"}, 200}, // another key: neither ann's nor bob's
	{"/user", []string{"x-user", "ann,bob"}, 429},              // the same
	{"/user", []string{"x-user", "", "x-user", "bob"}, 200},
	{"/user", []string{"x-user", ",bob"}, 429},
}

// Claims of a client are removed before the filter sees them, in any spelling. Behind one trusted proxy the client is the
// one that the proxy saw.
var clientSends = []sent{
	{"/claims", []string{"x-user-id", "ann", "x-tier", "gold"}, 200}, // nobody's one request
	{"/claims", []string{"x-user-id", "bob", "x-tier", "gold", "x-cost", "0"}, 429},
	{"/claims", []string{"X-User-Id", "eve", "x-user-id", "eve"}, 429},
	{"/claims", []string{"x_user_id", "eve"}, 400},
	{"/address", []string{"x-forwarded-for", "203.0.113.1, 198.51.100.1"}, 200},
	{"/address", []string{"x-forwarded-for", "203.0.113.2, 198.51.100.1"}, 429},
	{"/address", []string{"x-forwarded-for", "203.0.113.1, 198.51.100.2"}, 200},
}

// The monitor of the heap works, and is far from rejecting anything at start.
func heapIsWatched(t *testing.T, p *stack.PoP) {
	const monitor = "overload.envoy.resource_monitors.fixed_heap."
	var stats map[string]int64
	proc.Eventually(t, 10*time.Second, "the monitor has looked", func() bool {
		stats = p.Stats(monitor)
		_, looked := stats[monitor+"pressure"]
		return looked && (stats[monitor+"pressure"] > 0 || envoy.Native()) // its heap is less than 1 %
	})
	if stats[monitor+"pressure"] > 25 || stats[monitor+"failed_updates"] > 0 {
		t.Errorf("%v: want a pressure of at most 25 %%", stats)
	}
}
