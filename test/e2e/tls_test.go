package e2e

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// PoP, region and aggregator speak TLS, show certificates, and refuse those of others.
func TestTLSBetweenAllTiers(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "ca.pem"), a.PEM, 0o600),
		a.Write(dir, "global", "weir-global"),
		a.Write(dir, "region-eu", "weir-regional", "weir://region/eu"),
		a.Write(dir, "pop-eu", "weir://pop/eu"),
		a.Write(dir, "pop-us", "weir://pop/us"),
	); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	serving := func(name string) []string {
		return []string{"--state", "off", "--tls-cert", file(name + ".pem"), "--tls-key", file(name + ".key"), "--tls-client-ca", file("ca.pem")}
	}
	aggregator := region.New(t, region.Config{
		Dir: dir, Name: "global", Rules: regionsRules, Program: "weir-global", Flags: serving("global"),
	})
	aggregator.Start()
	newRegion := func(process, name string) *region.Region {
		r := region.New(t, region.Config{Dir: dir, Name: process, Rules: regionsRules, Flags: append(serving("region-eu"),
			"--region", name, "--global", aggregator.Addr, "--global-tls", "--global-tls-ca", file("ca.pem"), "--global-tls-name", "weir-global",
			"--global-tls-cert", file("region-eu.pem"), "--global-tls-key", file("region-eu.key"))})
		r.Start()
		return r
	}
	eu := newRegion("eu", "eu")
	secure := func(b *envoy.Bootstrap, cert string) {
		b.SetTLS("eu", file(cert+".pem"), file(cert+".key"), file("ca.pem"))
	}
	refused := func() float64 { return eu.Metrics()["weir_callers_refused_total"] }
	roots := x509.NewCertPool()
	roots.AddCert(a.Certificate)

	t.Run("with the right certificates", func(t *testing.T) {
		s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: eu.Addr, Bootstrap: func(b *envoy.Bootstrap) { secure(b, "pop-eu") }})
		awaitRules(t, s)
		awaitStat(t, s.PoPs[0], "rules_revision", 1)
		exactly(t, "an exact limit", 20, func() map[int]int {
			statuses := map[int]int{}
			for range 30 {
				statuses[s.PoPs[0].Get("/exact/a").Status]++
			}
			return statuses
		})
	})
	t.Run("a PoP of another region gets nothing", func(t *testing.T) {
		before := refused()
		s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: eu.Addr, Plugin: map[string]any{"before_rules": "deny"},
			Bootstrap: func(b *envoy.Bootstrap) { secure(b, "pop-us") }})
		p := s.PoPs[0]
		awaitStat(t, p, "calls.reason.error", 1)
		for range 30 {
			if got := p.Get("/exact/b").Status; got != http.StatusServiceUnavailable {
				t.Errorf("%d, want 503", got)
			}
		}
		awaitStat(t, p, "before_rules", 30)
		for _, name := range []string{"rules_revision", "rules_age_seconds", "calls.reason.answered"} {
			if got := stat(p, name); got != 0 {
				t.Errorf("%s is %d", name, got)
			}
		}
		proc.Eventually(t, time.Minute, "the region counts whom it refuses", func() bool { return refused() > before })
		refusal := func(line string) bool {
			return hasAll(line, "caller refused", "the caller's certificate is for", "--tls-client-san (weir://pop/eu) does not allow", "127.0.0.1:")
		}
		if !slices.ContainsFunc(strings.Split(eu.Log(), "\n"), refusal) {
			t.Errorf("the region's log does not have whom it refuses, and why:\n%s", eu.Log())
		}
		answer, err := askUnit(eu.Addr, "exact", 1, roots, clientOf(t, a, "weir://pop/us"))
		if err != nil || answer.status != http.StatusForbidden || !hasAll(answer.text, "permission_denied", "weir://pop/us", "weir://pop/eu") {
			t.Errorf("a call with that certificate: %+v, %v; want 403 with its name and the one that is allowed", answer, err)
		}
	})
	t.Run("a region cannot speak for another one", func(t *testing.T) {
		before := aggregator.Metrics()["weir_acquire_rejected_total"]
		us := newRegion("us", "us")
		proc.Await(t, time.Minute, "the aggregator refuses the region", func() string {
			if up, rejected := us.Metrics()["weir_remote_up"], aggregator.Metrics()["weir_acquire_rejected_total"]; up != 0 || rejected <= before {
				return fmt.Sprintf("weir_remote_up is %v, weir_acquire_rejected_total was %v and is %v", up, before, rejected)
			}
			return ""
		})
		proc.Await(t, time.Minute, "one line of its log names what it calls, what it has and what is allowed", func() string {
			for line := range strings.Lines(us.Log()) {
				if hasAll(line, aggregator.Addr, "permission_denied", "certificate is for", "weir://region/eu", "--tls-client-san (weir://region/{region}) does not allow") {
					return ""
				}
			}
			return us.Log()
		})
		answer, err := askUnit(us.Addr, "exact", 1, roots, clientOf(t, a, "weir://pop/us"))
		if err != nil || !strings.Contains(answer.text, "STATUS_UNAVAILABLE") {
			t.Errorf("a unit of the region: %+v, %v", answer, err)
		}
		if m := aggregator.Metrics(); m[`weir_region_wants_total{region="us"}`] != 0 || m[`weir_region_wants_total{region="eu"}`] == 0 {
			t.Errorf("wants at the aggregator: %v of us, %v of eu", m[`weir_region_wants_total{region="us"}`], m[`weir_region_wants_total{region="eu"}`])
		}
	})
	t.Run("without TLS there is nothing", func(t *testing.T) {
		for _, r := range []*region.Region{aggregator, eu} {
			if resp, err := stack.Do(r.Addr, http.MethodGet, "/healthz", ""); err == nil && resp.Status == http.StatusOK {
				t.Errorf("%s answers without TLS: %+v", r.Addr, resp)
			}
		}
	})
}

// stat is a metric of the filter of a PoP.
func stat(p *stack.PoP, name string) int64 {
	name = "wasmcustom.weir." + name
	return p.Stats(name)[name]
}

// awaitStat waits until it is this large.
func awaitStat(t *testing.T, p *stack.PoP, name string, least int64) {
	t.Helper()
	proc.Await(t, time.Minute, p.Name+": "+name, func() string {
		if got := stat(p, name); got < least {
			return fmt.Sprintf("%d, want %d", got, least)
		}
		return ""
	})
}

func hasAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
