package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// mixedLimit is the limit of the rules below, of buckets that hardly refill: what a test
// admits does not depend on when it runs.
const mixedLimit = 60

const mixedRules = `rules:
  - { name: exact, match: { path: /exact }, key: [{ header: x-user }], limit: 60/1d, consistency: exact, timeout: 1s, on_failure: deny }
  - { name: leased, match: { path: /leased }, key: [{ header: x-user }], limit: 60/1d, timeout: 1s, on_failure: deny }
  - { name: slots, match: { path: /slots }, key: [], limit: 20, algorithm: concurrency, timeout: 1s, on_failure: deny }
  - name: tiers
    match: { path: { prefix: /tiers/ } }
    key: [{ header: x-user }]
    limit: 5/1d
    consistency: exact
    timeout: 1s
    on_failure: deny
    overrides:
      - { when: { path: /tiers/silver }, limit: 20/1d }
      - { when: { path: /tiers/gold }, limit: 60/1d }
`

// fewRule is a rule that not every replica has.
const fewRule = `  - { name: few, match: { path: /few }, key: [{ header: x-user }], limit: 5/1d, consistency: exact, timeout: 1s }
`

// fleet is PoPs, of which the second has the previous release's filter, before two
// replicas on one Redis, each of either release. They begin with the previous one.
type fleet struct {
	t        *testing.T
	previous stack.Previous
	redis    string
	replicas [2]*replica
	upstream atomic.Pointer[stack.InFlight]
	*stack.Stack
}

func startFleet(t *testing.T, pops int, rules [2]string) *fleet {
	t.Helper()
	f := &fleet{t: t, previous: stack.BuildPrevious(t, filepath.Join("testdata", "previous")), redis: redistest.Start(t).Addr}
	for i := range f.replicas {
		f.replicas[i] = newReplica(t, fmt.Sprint("replica-", i+1), rules[i], []string{f.redis})
		f.release(i, false)
		f.replicas[i].Start()
	}
	f.upstream.Store(new(stack.InFlight))
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.upstream.Load().Track(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if r.URL.Path == "/slots" {
				time.Sleep(50 * time.Millisecond)
			}
		})).ServeHTTP(w, r)
	})
	n := 0
	f.Stack = stack.Start(t, stack.Config{PoPs: pops, Upstream: upstream, RegionAddr: f.replicas[0].Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", f.replicas[0].Addr, f.replicas[1].Addr)
		b.DropHealthChecks("weir_region") // as in the previous release
		if n++; n == 2 {
			b.SetModule(f.previous.Module)
		}
	}})
	awaitRules(t, f.Stack)
	return f
}

// release says which release a replica is started with.
func (f *fleet) release(i int, current bool) {
	f.replicas[i].Argv[0] = f.previous.Region
	if current {
		f.replicas[i].Argv[0] = region.Program(f.t)
	}
}

// roll restarts a replica with a release, without load.
func (f *fleet) roll(i int, current bool) {
	f.t.Helper()
	f.replicas[i].Stop()
	f.release(i, current)
	f.replicas[i].Start()
	for _, p := range f.PoPs {
		proc.Eventually(f.t, 20*time.Second, p.Name+" calls both replicas without a failure", func() bool {
			before := unanswered(p)
			for range 20 {
				p.Get("/exact", "x-user", fmt.Sprint("warm-", time.Now().UnixNano()))
			}
			const healthy = "cluster.weir_region.membership_healthy"
			return p.Stats(healthy)[healthy] == 2 && unanswered(p) == before
		})
	}
}

// unanswered is how many calls of the filters had no answer that could be used.
func unanswered(pops ...*stack.PoP) (n int64) {
	for _, p := range pops {
		for name, calls := range p.Stats("wasmcustom.weir.calls.reason") {
			if !strings.HasSuffix(name, ".answered") {
				n += calls
			}
		}
	}
	return n
}

// Two fleets are of both releases, one beside the other: each mostly waits.
func TestMixedFleets(t *testing.T) {
	same := startFleet(t, 2, [2]string{mixedRules, mixedRules})
	newer := startFleet(t, 1, [2]string{mixedRules, mixedRules + fewRule})
	t.Run("rolled", func(t *testing.T) {
		t.Parallel()
		isRolled(t, same)
	})
	t.Run("with different rules", func(t *testing.T) {
		t.Parallel()
		hasDifferentRules(t, newer)
	})
}

// A fleet is rolled, in either order, and back: at every step each limit holds over both
// releases of filter and region, no call fails, and none is refused.
func isRolled(t *testing.T, f *fleet) {
	for _, step := range []struct {
		name string
		roll int // -1: none
		to   bool
		most int64 // limits that an override may admit: replicas of the releases count it apart
	}{
		{"new filters before old replicas", -1, false, 1},
		{"the first replica is rolled", 0, true, 2},
		{"old filters before new replicas", 1, true, 1},
		{"the first replica is rolled back", 0, false, 2},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.roll >= 0 {
				f.roll(step.roll, step.to)
			}
			before := unanswered(f.PoPs...)
			const all = mixedLimit
			for i := range 3 {
				user := fmt.Sprintf("%s-%d", strings.ReplaceAll(step.name, " ", "-"), i)
				f.spend(t, "/exact", user, all, all)
				f.spend(t, "/leased", user, all/3, all) // what idles in leases does not come back that fast
				f.spend(t, "/tiers/gold", user, all, step.most*all)
			}
			f.fill(t)
			// A worker that has not called since finds its connection closed; a release that the other one
			// does not understand fails each call.
			if n := unanswered(f.PoPs...) - before; n > 3 {
				t.Errorf("%d calls failed", n)
			}
			for _, p := range f.PoPs {
				for _, reason := range []string{"malformed", "version"} {
					if n := stat(p, "calls.reason."+reason); n != 0 {
						t.Errorf("%s: %d calls ended with %q", p.Name, n, reason)
					}
				}
			}
			for _, r := range f.replicas {
				m := r.Metrics()
				if m["weir_acquire_rejected_total"]+m["weir_acquire_duplicates_total"]+m["weir_wants_unknown_rule_total"] > 0 {
					t.Errorf("%s: %v calls refused, %v taken for repeated, %v wants of unknown rules", r.Name,
						m["weir_acquire_rejected_total"], m["weir_acquire_duplicates_total"], m["weir_wants_unknown_rule_total"])
				}
			}
			if a, b := f.version(0), f.version(1); a != b || a == "" {
				t.Errorf("the same rules have version %q in one release and %q in the other", a, b)
			}
		})
	}
}

// spend uses a key up through all PoPs, and demands how much is admitted.
func (f *fleet) spend(t *testing.T, path, user string, least, most int64) {
	t.Helper()
	tally, err := drive.Run(t.Context(), drive.Load{Addrs: f.Addrs(), Conns: 4, Count: 3 * mixedLimit, Request: drive.Get(path, "x-user", user)})
	if err != nil {
		t.Fatal(err)
	}
	if n := tally.OK(); n < least || n > most || tally.Other(200, 429) > heldUp {
		t.Errorf("%s %s: admitted %d, want %d to %d; answers %v, %d without", path, user, n, least, most, tally.Status, tally.Failed)
	}
}

// heldUp is how many requests a busy machine may cost: Redis has 0.1 s for each.
const heldUp = 2

// fill has more requests at once than there are slots.
func (f *fleet) fill(t *testing.T) {
	t.Helper()
	var busy stack.InFlight
	f.upstream.Store(&busy)
	tally, err := drive.Run(t.Context(), drive.Load{Addrs: f.Addrs(), Conns: 20, Until: time.Now().Add(2 * time.Second), PerSecond: 800, Request: drive.Get("/slots")})
	if err != nil {
		t.Fatal(err)
	}
	if n := busy.Most(); n > 20 || n < 10 || tally.Status[429] == 0 || tally.Other(200, 429) > heldUp {
		t.Errorf("at most %d requests at once, want 10 to 20; answers %v, %d without", n, tally.Status, tally.Failed)
	}
}

// version is that of a replica's rules.
func (f *fleet) version(i int) string {
	for name := range f.replicas[i].Metrics() {
		if version, ok := strings.CutPrefix(name, `weir_rules_info{version="`); ok {
			return strings.TrimSuffix(version, `"}`)
		}
	}
	return ""
}

// Replicas have different rules, of which the newer ones have one more: the PoP takes
// those and stays with them, and the rule that one replica lacks holds.
func hasDifferentRules(t *testing.T, f *fleet) {
	f.roll(1, true)
	p := f.PoPs[0]
	inForce := func(r stack.Response) bool { return strings.Contains(r.Header.Get("RateLimit-Policy"), "few") }
	row := 0 // so many in a row reach each worker
	proc.Eventually(t, 20*time.Second, "the newer rules are in force", func() bool {
		if row++; !inForce(p.Get("/few", "x-user", fmt.Sprint(time.Now().UnixNano()))) {
			row = 0
		}
		return row == 20
	})
	for _, other := range []string{"of the previous release", "of this release"} {
		t.Run("the other is "+other, func(t *testing.T) {
			if other == "of this release" {
				f.roll(0, true)
			}
			admitted, without := 0, 0
			for range 118 {
				r := p.Get("/few", "x-user", other)
				if r.Status == 200 {
					admitted++
				}
				if !inForce(r) {
					without++
				}
				time.Sleep(25 * time.Millisecond)
			}
			t.Logf("%d of 118 admitted", admitted)
			if admitted < 5 || admitted > 10+without || without > heldUp {
				t.Errorf("%d of 118 admitted, want 5 and at most as many again; %d times without a decision of the rule", admitted, without)
			}
		})
	}
}
