package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// MARKER stands for what changes while the test runs.
const operatedRules = `
rules:
  - { name: orders, match: { path: /orders }, key: [{ header: x-user }], limit: 1000000/1h, scope: global }
  - { name: login, match: { path: /login }, key: [{ header: x-user }], limit: 5/1s, timeout: 1s }
  - { name: closed, match: { path: /closed }, key: [{ header: x-user }], limit: 0/1d, algorithm: fixed_window }
  - { name: few, match: { path: /few }, key: [{ header: x-user }], limit: 5/1d, algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny }
  - { name: MARKER, match: { path: /MARKER }, key: [], limit: 0/1d, scope: pop }
`

// operated is an installation that the test operates: Consul, an aggregator, and three regions with a Redis and a PoP
// each. The first region has two replicas.
type operated struct {
	*testing.T
	*stack.Stack
	dir        string
	consul     *consultest.Agent
	redis      []*redistest.Server // of each region
	aggregator *region.Region
	replicas   []*region.Region // one of each region, and another one of the first
	links      []*stack.Link    // between each PoP and its region
}

// operatedRegions are their names.
var operatedRegions = []string{"eu", "us", "ap"}

func startOperated(t *testing.T) *operated {
	t.Helper()
	w := &operated{T: t, dir: proc.LogDir(t)}
	w.consul = consultest.Start(t, w.dir)
	start := func(name, program string, flags ...string) *region.Region {
		r := region.New(t, region.Config{Dir: w.dir, Name: name, Program: program, Flags: append(flags,
			"--rules", "consul:", "--consul", w.consul.Addr, "--rules-copy", filepath.Join(w.dir, name+".copy"))})
		r.Begin()
		return r
	}
	w.weir(0, "apply", w.rules("first"), "--consul", w.consul.Addr, "--reason", "begin")
	w.aggregator = start("global", "weir-global", "--state", filepath.Join(w.dir, "state"))
	for i, name := range append(operatedRegions, operatedRegions[0]) {
		if i < len(operatedRegions) {
			w.redis = append(w.redis, redistest.Start(t))
		}
		w.replicas = append(w.replicas, start(fmt.Sprint(name, i), "weir-regional", "--region", name,
			"--global", w.aggregator.Addr, "--redis", w.redis[i%len(operatedRegions)].Addr, "--redis-timeout", "1s"))
	}
	for _, r := range append(w.replicas, w.aggregator) {
		r.AwaitReady()
	}
	w.Stack = stack.Start(t, stack.Config{PoPs: len(operatedRegions), RegionAddr: w.replicas[0].Addr, Bootstrap: func(b *envoy.Bootstrap) {
		i := len(w.links)
		w.links = append(w.links, stack.NewLink(t, w.replicas[i].Addr))
		addrs := []string{w.links[i].Addr}
		if i == 0 {
			addrs = append(addrs, w.replicas[len(w.replicas)-1].Addr)
		}
		b.SetCluster("weir_region", addrs...)
		b.SetPlugin(map[string]any{"region": operatedRegions[i]})
	}})
	w.everywhere("the rules", w.PoPs, func(p *stack.PoP) bool { return p.Get("/first").Status == http.StatusTooManyRequests })
	return w
}

// rules writes the rules with a marker, and returns the path of the file.
func (w *operated) rules(marker string) string {
	return proc.WriteFile(w, filepath.Join(w.dir, "rules.yaml"), strings.ReplaceAll(operatedRules, "MARKER", marker))
}

// everywhere waits until something holds for so many connections in a row that each worker of the PoPs had some.
func (w *operated) everywhere(what string, pops []*stack.PoP, holds func(*stack.PoP) bool) {
	w.Helper()
	proc.Together(len(pops), func(i int) {
		proc.Eventually(w, time.Minute, pops[i].Name+" has "+what, func() bool {
			for range 10 {
				if !holds(pops[i]) {
					return false
				}
			}
			return true
		})
	})
}

// weir runs the tool, which has to end with a status, and returns what it prints to both outputs.
func (w *operated) weir(status int, args ...string) (stdout, stderr string) {
	w.Helper()
	stdout, stderr, got := w.run(args...)
	if got != status {
		w.Fatalf("weir %v: status %d, want %d\n%s%s", args, got, status, stdout, stderr)
	}
	return stdout, stderr
}

func (w *operated) run(args ...string) (stdout, stderr string, status int) {
	w.Helper()
	var out, problems bytes.Buffer
	c := exec.CommandContext(w.Context(), proc.Built(w, "bin/weir", "build"), args...)
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			w.Fatalf("weir %v: %v", args, err)
		}
	}
	return out.String(), problems.String(), c.ProcessState.ExitCode()
}

// asks runs a command at an admin port, which has to end with a status, and decodes what it prints for programs.
func asks[T any](w *operated, at *region.Region, status int, args ...string) (answer T) {
	w.Helper()
	out, _ := w.weir(status, append(args, "--admin", at.Admin, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		w.Fatalf("weir %v: %v\n%s", args, err, out)
	}
	return answer
}

// awaits asks until an answer has what is missing.
func awaits[T any](w *operated, at *region.Region, missing func(*T) string, args ...string) {
	w.Helper()
	proc.Await(w, time.Minute, fmt.Sprint("weir ", args), func() string {
		answer, text := new(T), ""
		out, problems, _ := w.run(append(args, "--admin", at.Admin, "-o", "json")...)
		if err := json.Unmarshal([]byte(out), answer); err != nil {
			return fmt.Sprint(err, out, problems)
		}
		if text = missing(answer); text != "" {
			text += "\n" + out
		}
		return text
	})
}

// steady offers each PoP 40 requests a second until the returned function is called, which returns what was answered.
// Half of them are of ann, whose limit is large, a third of eve, who is over hers, and the rest of others.
func (w *operated) steady() (end func() []*drive.Result) {
	ctx, cancel := context.WithCancel(w.Context())
	results := make([]*drive.Result, len(w.PoPs))
	var running sync.WaitGroup
	request := func(path, user string) func([]byte, int64) []byte { return drive.Get(path, "x-user", user) }
	ann, eve := request("/orders", "ann"), request("/login", "eve")
	for i, p := range w.PoPs {
		running.Go(func() {
			var err error
			results[i], err = drive.Run(ctx, drive.Load{Addrs: []string{p.Addr}, Conns: 4, PerSecond: 40, Until: time.Now().Add(5 * time.Minute),
				Request: func(buf []byte, n int64) []byte {
					switch {
					case n%6 < 3:
						return ann(buf, n)
					case n%6 < 5:
						return eve(buf, n)
					}
					return request("/orders", fmt.Sprint("user-", n%40))(buf, n)
				}})
			if err != nil {
				w.Error(err)
			}
		})
	}
	return func() []*drive.Result {
		cancel()
		running.Wait()
		return results
	}
}

// names are the kinds, regions and names of members, each once.
func names(s *v1.Status) (all []string) {
	for _, m := range s.Members {
		name := m.Kind + " " + m.Region
		if m.Kind == "pop" {
			name += " " + m.Name
		}
		all = append(all, name)
	}
	return all
}

// operatedMembers are the members of the installation, of all regions.
var operatedMembers = []string{"aggregator ", "region ap", "region eu", "region eu", "region us", "pop ap pop-3", "pop eu pop-1", "pop us pop-2"}

// TestOperateThreeRegions: the API of an aggregator, or of a region, shows what three regions with PoPs under load do, and
// changes it.
func TestOperateThreeRegions(t *testing.T) {
	t.Parallel()
	proc.AwaitDay()
	w := startOperated(t)
	end := w.steady()
	w.overrideEverywhere()
	w.applied()
	w.members()
	w.most()
	w.decisions()
	w.keys()
	w.liar()
	for i, r := range end() {
		if r.Other(http.StatusOK, http.StatusTooManyRequests) > 0 || r.Failed > 0 {
			t.Errorf("%s: %v, %d failed: %v", w.PoPs[i].Name, r.Status, r.Failed, r.FirstError)
		}
	}
}

// overrideEverywhere sets overrides at the aggregator, and measures when all workers of all PoPs decide by each of them. A PoP
// remembers for up to 0.8 s that a key is refused.
func (w *operated) overrideEverywhere() {
	w.Helper()
	refused := func(user string, want int) func(*stack.PoP) bool {
		return func(p *stack.PoP) bool { return p.Get("/closed", "x-user", user).Status == want }
	}
	for _, known := range []bool{false, true} {
		var took []time.Duration
		for i := range 3 {
			user := fmt.Sprintf("customer-%t-%d", known, i)
			if known {
				w.everywhere("refused", w.PoPs, refused(user, http.StatusTooManyRequests))
			}
			began := time.Now()
			body := fmt.Sprintf(`{"rule": "closed", "key": [%q], "limit": "1000/1d", "until": %q, "why": "a test"}`, user, began.Add(time.Hour).Format(time.RFC3339))
			r, err := stack.Do(w.aggregator.Admin, http.MethodPut, "/v1/overrides", body, "content-type", "application/json")
			if err != nil || r.Status != http.StatusOK {
				w.Fatalf("%v: %d %s", err, r.Status, r.Body)
			}
			w.everywhere("the override", w.PoPs, refused(user, http.StatusOK))
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		w.Logf("refused before: %t; an override decided at all PoPs of three regions after %v to %v, the median is %v", known, took[0], took[2], took[1])
		if took[1] > 5*time.Second {
			w.Error("more than 5 s")
		}
	}
	if all := asks[v1.Amendments](w, w.replicas[1], 0, "override", "list"); len(all.Items) != 6 {
		w.Errorf("another region has %+v", all.Items)
	}
	w.weir(0, "override", "rm", "closed", "customer-true-0", "--reason", "it is over", "--admin", w.replicas[2].Admin)
	w.everywhere("refused", w.PoPs, refused("customer-true-0", http.StatusTooManyRequests))
	if all := asks[v1.Audit](w, w.aggregator, 0, "audit"); len(all.Items) != 7 || all.Items[0].What != "override.remove" || all.Items[0].Why != "it is over" {
		w.Errorf("audit: %+v", all.Items)
	}
}

// applied applies rules and waits until all members have them. Then each worker decides by them.
func (w *operated) applied() {
	w.Helper()
	began := time.Now()
	out, _ := w.weir(0, "apply", w.rules("second"), "--admin", w.aggregator.Admin, "--reason", "a test", "--wait")
	w.Logf("weir apply --wait took %v: %s", time.Since(began), out)
	if want := fmt.Sprint("in force at all members of all regions: ", len(operatedMembers)); !strings.Contains(out, want) {
		w.Errorf("%q is not in %s", want, out)
	}
	for _, p := range w.PoPs {
		for range 10 {
			if r := p.Get("/second"); r.Status != http.StatusTooManyRequests {
				w.Fatalf("%s has not the rules that all have: %d", p.Name, r.Status)
			}
		}
	}
}

// members: all have the same rules, and are well.
func (w *operated) members() {
	w.Helper()
	awaits(w, w.aggregator, func(seen *v1.Status) string {
		if got := names(seen); seen.Of != "all regions" || !slices.Equal(got, operatedMembers) {
			return fmt.Sprintf("%s: %q", seen.Of, got)
		}
		for _, m := range seen.Members {
			if m.RulesVersion != seen.InForce.Version || m.RulesRevision != seen.InForce.Revision {
				return fmt.Sprintf("%+v", m)
			}
		}
		return ""
	}, "status")
	w.weir(0, "status", "--admin", w.aggregator.Admin)
	own := asks[v1.Status](w, w.replicas[0], 0, "status")
	if got := names(&own); own.Of != "region eu" || !slices.Equal(got, []string{"region eu", "region eu", "pop eu pop-1"}) {
		w.Errorf("%s: %q", own.Of, got)
	}
}

// most: the keys that come most, and those that are refused most, are those of the load, at about its rate.
func (w *operated) most() {
	w.Helper()
	about := func(r *v1.Rate, rule, key string, perSecond float64) bool {
		return r.Rule == rule && r.Key == key && r.PerSecond > perSecond/2 && r.PerSecond-r.Over < perSecond*3/2
	}
	awaits(w, w.aggregator, func(top *v1.Top) string {
		if len(top.Keys) < 10 || !about(&top.Keys[0], "orders", "ann", 60) || !about(&top.Keys[1], "login", "eve", 40) {
			return "ann with 60 requests a second, then eve with 40, and the others"
		}
		return ""
	}, "top", "--by", "key")
	awaits(w, w.aggregator, func(top *v1.Top) string {
		if len(top.Keys) == 0 || !about(&top.Keys[0], "login", "eve", 25) || slices.ContainsFunc(top.Keys, func(r v1.Rate) bool { return r.Rule == "orders" }) {
			return "eve with 25 refusals a second, and no orders"
		}
		return ""
	}, "top", "--by", "denied")
	awaits(w, w.aggregator, func(top *v1.Top) string {
		for _, name := range operatedRegions {
			if !slices.ContainsFunc(top.Keys, func(r v1.Rate) bool { return r.From == name && about(&r, "orders", "ann", 20) }) {
				return "ann with 20 requests a second in " + name
			}
		}
		return ""
	}, "top", "--by", "key", "--each-pop")
	awaits(w, w.aggregator, func(top *v1.Top) string {
		for _, u := range top.Rules {
			if u.Rule == "login" && u.AdmittedPerSecond > 5 && u.AdmittedPerSecond < 25 && u.DeniedPerSecond > 12 && u.DeniedPerSecond < 40 {
				return ""
			}
		}
		return "login with 15 admitted and 25 refused a second"
	}, "top", "--by", "rule")
}

// decisions: a tap shows the refusals of one key, in all regions, and at a region its PoP. On a busy machine a PoP may learn late
// what is tapped.
func (w *operated) decisions() {
	w.Helper()
	for at, froms := range map[*region.Region][]string{w.aggregator: operatedRegions, w.replicas[0]: {"pop-1"}} {
		var heard []string
		for begin := time.Now(); len(heard) < len(froms) && time.Since(begin) < time.Minute; {
			out, _ := w.weir(0, "tap", "--rule", "login", "--key", "eve", "--outcome", "denied", "--for", "6s", "--per-second", "50", "--admin", at.Admin, "-o", "json")
			for line := range strings.Lines(out) {
				var d v1.Decision
				if err := json.Unmarshal([]byte(line), &d); err != nil || d.Rule != "login" || d.Key != "eve" || d.Outcome != "denied" || d.RetryAfterMs == 0 {
					w.Fatalf("%v: %s", err, line)
				}
				heard = append(heard, d.From)
			}
			slices.Sort(heard)
			heard = slices.Compact(heard)
		}
		if want := slices.Sorted(slices.Values(froms)); !slices.Equal(heard, want) {
			w.Errorf("decisions from %v, want some from each of %v", heard, want)
		}
	}
}

// keys: the counter of a key is looked at and reset, where it is.
func (w *operated) keys() {
	w.Helper()
	spend := func() (admitted int) {
		for range 8 {
			if w.PoPs[0].Get("/few", "x-user", "bob").Status == http.StatusOK {
				admitted++
			}
		}
		return admitted
	}
	if n := spend(); n != 5 {
		w.Errorf("admitted %d, want 5", n)
	}
	other := w.replicas[len(w.replicas)-1] // counters are in Redis
	if found := asks[v1.Counters](w, other, 0, "peek", "few", "bob"); len(found.Items) != 1 || found.Items[0].Limit != 5 || found.Items[0].Remaining != 0 {
		w.Errorf("%+v", found.Items)
	}
	if found := asks[v1.Counters](w, w.replicas[0], 0, "reset", "few", "bob", "--reason", "a test"); len(found.Items) != 1 || found.Items[0].Remaining != 5 {
		w.Errorf("%+v", found.Items)
	}
	spends(w.T, 5, func() int64 { return int64(spend()) })
	if found := asks[v1.Counters](w, w.aggregator, 0, "peek", "orders", "ann"); len(found.Items) != 1 || found.Items[0].Remaining >= 1_000_000 {
		w.Errorf("%+v", found.Items)
	}
	for at, want := range map[*region.Region][]string{w.aggregator: operatedRegions, w.replicas[0]: {"pop-1"}} {
		want = slices.Sorted(slices.Values(want))
		awaits(w, at, func(found *v1.Counters) string {
			var from []string
			for _, d := range found.PoPs {
				from = append(from, d.From)
			}
			if !slices.Equal(from, want) {
				return fmt.Sprintf("what ann's key has at %q", want)
			}
			return ""
		}, "peek", "orders", "ann")
	}
	if _, problem := w.weir(1, "peek", "few", "bob", "--admin", w.aggregator.Admin); !strings.Contains(problem, "region") {
		w.Errorf("a counter of a region, at the aggregator: %s", problem)
	}
}

// liar: who reports under names of others, of other regions, or without measure, has a row of its own, and changes no
// other one.
func (w *operated) liar() {
	w.Helper()
	asks[v1.Status](w, w.aggregator, 0, "status")
	stop, lies := make(chan struct{}), newRawHolder(w.replicas[0], "one that does li")
	lie := func(pop string, change func(*quotapb.ReportRequest)) error {
		m := &quotapb.ReportRequest{
			Protocol: 1, ProtocolMax: 1, Holder: lies.id, Worker: 1, Pop: pop, Region: "us",
			Members: []*quotapb.Member{{Kind: quotapb.MemberKind_MEMBER_KIND_POP, Region: "us", Name: pop, Holder: lies.id, Worker: 1, RulesVersion: "lie"}},
			Keys:    []*quotapb.KeyRate{{Rule: "orders", Key: []byte("ann"), Count: 1 << 50}, {Rule: "no-rule", Key: []byte("ann"), Count: 1 << 50}},
		}
		change(m)
		_, err := lies.client.Report(w.Context(), connect.NewRequest(m))
		return err
	}
	others := func(m *quotapb.ReportRequest) {
		of := m.Members[0]
		of.Kind, of.Name = quotapb.MemberKind_MEMBER_KIND_AGGREGATOR, "pop-1"
		m.Members = append(m.Members, of)
	}
	err := lie("pop-2", func(m *quotapb.ReportRequest) { m.Keys[0].Key = make([]byte, 201) })
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "KeyRate.key: it is out of its bounds") {
		w.Errorf("a long key: %v", err)
	}
	var lying sync.WaitGroup
	lying.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(500 * time.Millisecond):
				if err := lie("pop-2", others); err != nil {
					w.Error(err)
				}
			}
		}
	})
	defer lying.Wait()
	defer close(stop)
	awaits(w, w.aggregator, func(s *v1.Status) string {
		if got := names(s); !slices.Equal(got, slices.Insert(slices.Clone(operatedMembers), 7, "pop eu pop-2")) {
			return fmt.Sprintf("the liar's row beside those of the others: %q", got)
		}
		for _, m := range s.Members {
			if liar := m.Region == "eu" && m.Name == "pop-2"; liar != (m.RulesVersion == "lie") {
				w.Errorf("%+v", m)
			}
		}
		return ""
	}, "status")
	awaits(w, w.replicas[0], func(top *v1.Top) string {
		rates := map[string]float64{}
		for _, r := range top.Keys {
			if r.Rule == "no-rule" {
				w.Errorf("a rule that there is not: %+v", r)
			}
			if r.Rule == "orders" && r.Key == "ann" {
				rates[r.From] = r.PerSecond
			}
		}
		if rates["pop-2"] < 1e6 || rates["pop-1"] < 10 || rates["pop-1"] > 30 {
			return "ann apart for the liar, and for pop-1 with 20 requests a second"
		}
		return ""
	}, "top", "--by", "key", "--each-pop")
}
