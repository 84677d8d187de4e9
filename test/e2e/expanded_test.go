package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// What a rule was expanded into has its full name in headers, in the access log, and as a label of
// metrics at the PoP and the region.
func TestNamesOfExpandedRules(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	proc.AwaitDay()
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Bootstrap: func(b *envoy.Bootstrap) { b.SetAccessLog(log) }, Rules: `
rules:
  - { name: login, match: { path: /login }, timeout: 1s, key: [ { header: x-user } ], limits: [10/1d, 2/2d],
      algorithm: fixed_window, consistency: exact }
`})
	awaitRules(t, s)
	p := s.PoPs[0]
	expect(t, p.Get("/login", "x-user", "ann"), 200, map[string]string{"RateLimit-Policy": `^"login";q=10;w=86400, "login@2d";q=2;w=172800$`})
	p.Get("/login", "x-user", "ann")
	expect(t, p.Get("/login", "x-user", "ann"), 429, map[string]string{"RateLimit": `^"login@2d";r=0;t=\d+$`})
	holds := func(what string, text func() string) {
		proc.Eventually(t, 10*time.Second, what, func() bool { return strings.Contains(text(), what) })
	}
	stats := func() string { return do(t, p.Admin, http.MethodGet, "/stats/prometheus").Body }
	holds(`weir_decisions{rule="login@2d",decision="denied"} 1`, stats)
	holds(`weir_decisions{rule="login",decision="allowed"} `, stats)
	holds("weir-denied:login@2d", func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	})
	if m := s.Region.Metrics(); m[`weir_grants_total{override="",rule="login@2d",status="denied"}`] == 0 {
		t.Error("the region has no denial of login@2d")
	}
}
