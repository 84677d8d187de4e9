package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// keyLimits has a rule that each region counts and one that the aggregator counts, with a
// limit for the key acme.
func (r *rulesInConsul) keyLimits(acme int) string {
	const rule = "  - { name: %s, match: { path: /%s }, key: [{ query: account }], limit: 2/1d, algorithm: fixed_window, align: first_request,\n" +
		"      consistency: exact, on_failure: deny, timeout: 1s, scope: %s, overrides: [\n        { key: [acme], limit: %d/1d },\n      ] }\n"
	return proc.WriteFile(r.t, filepath.Join(r.dir, "rules.yaml"), "rules:\n"+fmt.Sprintf(rule, "near", "near", "region", acme)+fmt.Sprintf(rule, "far", "far", "global", acme))
}

// applyEverywhere applies rules, waits until all tiers have them, and returns their revision.
func (r *rulesInConsul) applyEverywhere(file, reason string) (revision uint64) {
	r.t.Helper()
	out := r.weir("apply", file, "--reason", reason)
	if _, err := fmt.Sscanf(out, "revision %d is in force", &revision); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	for _, one := range r.tiers {
		proc.Eventually(r.t, time.Minute, one.Name+" has the rules", func() bool {
			return one.Metrics()["weir_rules_revision"] >= float64(revision)
		})
	}
	return revision
}

// admittedOf sends requests of an account until one is refused by its limit, in turns to the
// PoPs, and returns how many the rule admitted: a worker of an Envoy that has no such rule yet
// limits nothing. failed is how many got no answer in time: each may have used up a unit.
func admittedOf(t *testing.T, pops []*stack.PoP, path, account string) (units, failed int) {
	t.Helper()
	for i := range 1000 {
		resp, err := stack.Do(pops[i%len(pops)].Addr, http.MethodGet, "/"+path+"?account="+account, "")
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.Status == http.StatusOK && !strings.Contains(resp.Header.Get("Ratelimit-Policy"), path):
			time.Sleep(20 * time.Millisecond)
		case resp.Status == http.StatusOK:
			units++
		case resp.Status == http.StatusTooManyRequests:
			return units, failed
		default:
			failed++
		}
	}
	t.Fatalf("%s: nobody refuses %s", path, account)
	return units, failed
}

// The tier that counts a key goes by the limit of the key, and by a new one as soon as it is
// applied, while the PoPs' rules stay as they are.
func (r *rulesInConsul) limitsOfKeys(t *testing.T) {
	r.applyEverywhere(r.keyLimits(10), "a limit for acme")
	for _, p := range r.pops {
		proc.Eventually(t, time.Minute, p.Name+" has the rules", func() bool {
			resp, err := stack.Do(p.Addr, http.MethodGet, "/near?account=probe", "")
			return err == nil && strings.Contains(resp.Header.Get("Ratelimit-Policy"), "near")
		})
	}
	used := map[string]int{} // of acme
	for _, c := range []struct {
		path    string
		pops    []*stack.PoP
		account string
		want    int
	}{
		{"near", r.pops[:1], "acme", 10}, {"near", r.pops[:1], "other", 2},
		{"far", r.pops, "acme", 10}, {"far", r.pops, "other", 2},
	} {
		units, failed := admittedOf(t, c.pops, c.path, c.account)
		if c.account == "acme" {
			used[c.path] = units
		}
		if units > c.want || units < c.want-failed {
			t.Errorf("%s: %d of %s admitted, %d failed; want %d", c.path, units, c.account, failed, c.want)
		}
	}
	revision := r.applyEverywhere(r.keyLimits(13), "acme pays more")
	for path, pops := range map[string][]*stack.PoP{"near": r.pops[:1], "far": r.pops} {
		more, failed := 0, 0
		proc.Eventually(t, time.Minute, path+" admits three more of acme", func() bool {
			units, lost := admittedOf(t, pops, path, "acme")
			more, failed = more+units, failed+lost
			return more+failed >= 3
		})
		if used[path] += more; used[path] > 13 {
			t.Errorf("%s: %d of acme were admitted, want 13 at most", path, used[path])
		}
	}
	if out := r.weir("history", fmt.Sprint(revision)); !strings.Contains(out, "key: [acme], limit: 13/1d") {
		t.Errorf("revision %d:\n%s", revision, out)
	}
}
