package dashboard

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

const sharedRules = `rules:
  - { name: shared, match: { path: { prefix: /shared } }, key: [{ header: x-user }], limit: 100000/1d, scope: global }
  - { name: local, match: { path: { prefix: /shared } }, key: [{ header: x-user }], limit: 100000/1d }
`

// The page of an aggregator shows all regions, and what they have on lease of global limits.
func TestAggregator(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	dir := proc.LogDir(t)
	global := region.New(t, region.Config{Dir: dir, Name: "global", Program: "weir-global", Rules: sharedRules, Flags: []string{"--state", filepath.Join(dir, "state")}})
	global.Start()
	s := &system{T: t, region: global}
	var last *region.Region
	for _, name := range []string{"eu", "us"} {
		r := region.New(t, region.Config{Dir: dir, Name: name, Rules: sharedRules, Flags: []string{"--region", name, "--aggregator", global.Addr}})
		r.Start()
		last = r
		s.pop = popOf(t, r.Addr)
		s.traffic("/shared", "ann")
	}
	s.Browser = browser.Start(t, "http://"+global.Admin)
	s.shows("/#/fleet", "us")
	proc.Eventually(t, 30*time.Second, "leases of the rule are shown", func() bool {
		s.Click("Read counters")
		time.Sleep(500 * time.Millisecond)
		rows := browser.Eval[[]string](s.Browser, `[...document.querySelectorAll("[aria-labelledby=leases] tbody tr")].map(r => r.innerText)`)
		return len(rows) == 1 && strings.HasPrefix(rows[0], "shared") && strings.Contains(rows[0], "ann")
	})
	s.Open("/")
	for _, name := range []string{"eu", "us"} {
		s.See(name)
	}
	s.See("no history is kept here")
	last.Pause()
	s.health("bad", "Region us: cut off since ")
	s.Open("/#/fleet")
	s.Ready(`[...document.querySelectorAll("[aria-labelledby=regions] .bad")].some(e => e.innerText.startsWith("cut off since "))`)
	s.See("region is cut off") // its replica and PoP repeat nothing
	last.Resume()
	s.Ready(`!document.querySelector(".banner.bad")`)
	s.well("the aggregator's page")
}

// The counters of a key are looked at and reset: the PoP admits the key again. Then it gets a larger limit of its own. The
// key is from an else: and pages show it as people write it, with its source. All forms accept it as it is shown.
func TestReset(t *testing.T) {
	s := start(t, "rules:\n  - { name: few, match: { path: /few }, key: [{ header: x-user, else: client_ip }], limit: 5/1d, algorithm: fixed_window, consistency: exact }\n")
	s.traffic("/few", "")
	s.becomes("/few", "", http.StatusTooManyRequests)
	s.shows("/#/rule/few", "client_ip 127.0.0.1")
	s.Click("Counters")
	s.See("remaining")
	before := s.admitted("few")
	s.because("she asked us", "Reset the counters", "The counters are reset.")
	proc.Eventually(t, 20*time.Second, "five more requests are admitted", func() bool { return s.admitted("few") == before+5 })
	s.Click("Close")
	s.limitKey("500/1d", "she pays")
	proc.Eventually(t, 20*time.Second, "more requests are admitted", func() bool { return s.admitted("few") > before+5 })
	s.shows("/#/fleet", "she asked us", "set override few client_ip 127.0.0.1")
	s.well("a reset")
}

// admitted is how many requests a rule has admitted, as the region reports it.
func (s *system) admitted(rule string) (n uint64) {
	s.Helper()
	var now v1.Status
	s.answer("/v1/status", &now)
	for _, u := range now.Rules {
		if u.Rule == rule {
			n = u.Admitted
		}
	}
	return n
}
