package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
	pop := func(cert string) *stack.Stack {
		return stack.Start(t, stack.Config{PoPs: 1, RegionAddr: eu.Addr, Bootstrap: func(b *envoy.Bootstrap) {
			b.SetTLS("weir_region", file(cert+".pem"), file(cert+".key"), file("ca.pem"), "weir-regional")
		}})
	}

	t.Run("with the right certificates", func(t *testing.T) {
		s := pop("pop-eu")
		awaitRules(t, s)
		exactly(t, "an exact limit", 20, func() map[int]int {
			statuses := map[int]int{}
			for range 30 {
				statuses[s.PoPs[0].Get("/exact/a").Status]++
			}
			return statuses
		})
	})
	t.Run("a PoP of another region gets nothing", func(t *testing.T) {
		pop("pop-us")
		proc.Await(t, time.Minute, "the region refuses the PoP", func() string {
			return refusals(eu)
		})
	})
	t.Run("a region cannot speak for another one", func(t *testing.T) {
		us := newRegion("us", "us")
		proc.Await(t, time.Minute, "the aggregator refuses the region", func() string {
			if m := us.Metrics(); m["weir_remote_up"] != 0 || !strings.Contains(us.Log(), "permission_denied") {
				return fmt.Sprintf("weir_remote_up is %v", m["weir_remote_up"])
			}
			return ""
		})
	})
	t.Run("without TLS there is nothing", func(t *testing.T) {
		for _, r := range []*region.Region{aggregator, eu} {
			if resp, err := stack.Do(r.Addr, http.MethodGet, "/healthz", ""); err == nil && resp.Status == http.StatusOK {
				t.Errorf("%s answers without TLS: %+v", r.Addr, resp)
			}
		}
	})
}

// refusals is empty when the region has refused callers by their certificate.
func refusals(r *region.Region) string {
	if n := r.Metrics()["weir_callers_refused_total"]; n == 0 {
		return "weir_callers_refused_total is 0"
	}
	return ""
}
