package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// keyLimits has a rule with this limit for each of 100,000 keys, in a file.
func keyLimits(t *testing.T, dir, limit string) string {
	text := new(strings.Builder)
	text.WriteString("rules:\n- name: users\n  match: { path: /users }\n  key: [{ header: x-user }]\n" +
		"  limit: 10/1h\n  algorithm: fixed_window\n  overrides:\n")
	for i := range 100_000 {
		fmt.Fprintf(text, "  - { key: [user-%d], limit: %s }\n", i, limit)
	}
	return proc.WriteFile(t, filepath.Join(dir, "keys.yaml"), text.String())
}

// An aggregator and three regions, each with a PoP and a datacenter of Consul, take their rules from the
// first datacenter, which the others have joined over WAN. A change of the limits of 100,000 keys reaches every
// PoP: each request has a key that no PoP has seen. Script 11 of test/regions changes single rules.
func TestRulesInConsul(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	primary := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "eu"})
	second := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "us", Primary: primary})
	third := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "ap", Primary: primary})
	apply := func(file string) {
		out, err := exec.Command(proc.Built(t, "bin/weir", "build"), "apply", file, "--reason", "all", "--consul", primary.Servers[0].Addr).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "it is not in force in") { // a slow machine has it later than the tool waits
			t.Errorf("weir apply: %v\n%s", err, out)
		}
	}
	apply(keyLimits(t, dir, "0/1h"))
	var addrs []string
	for _, one := range []struct {
		name, program string
		at            *consultest.Datacenter
		flags         []string
	}{
		{"global", "weir-global", primary, nil},
		{"eu", "weir-regional", primary, []string{"--region", "eu"}},
		{"us", "weir-regional", second, []string{"--region", "us"}},
		{"ap", "weir-regional", third, []string{"--region", "ap"}},
	} {
		r := region.New(t, region.Config{Dir: dir, Name: one.name, Program: one.program,
			Flags: append(one.flags, "--rules", "consul:", "--consul", one.at.Servers[0].Addr, "--consul-primary", primary.Name,
				"--state", "off", "--rules-copy", filepath.Join(dir, one.name+".copy"))})
		r.Start()
		addrs = append(addrs, r.Addr)
	}
	next := 0
	s := stack.Start(t, stack.Config{PoPs: 3, RegionAddr: addrs[1], Bootstrap: func(b *envoy.Bootstrap) {
		next++
		b.SetCluster("weir_region", addrs[next])
	}})
	users := 0
	await := func(status int) {
		t.Helper()
		for _, p := range s.PoPs {
			proc.Eventually(t, time.Minute, fmt.Sprint(p.Name, " answers ", status), func() bool {
				users++
				return p.Get("/users", "x-user", fmt.Sprint("user-", users)).Status == status
			})
		}
	}
	await(429)
	for _, c := range []struct {
		limit  string
		status int
	}{{"1000000/1h", 200}, {"0/1h", 429}} {
		file, began := keyLimits(t, dir, c.limit), time.Now()
		var tool sync.WaitGroup
		tool.Go(func() { apply(file) })
		await(c.status)
		took := time.Since(began)
		tool.Wait()
		t.Logf("%s in force at all PoPs after %v; the tool took %v", c.limit, took, time.Since(began))
	}
}
