package tiers

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// Of two programs that are not ready for want of Redis, the one that has been ready has started:
// an orchestrator does not let the other one replace good ones, and replaces neither for the outage.
func TestStarted(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a := region.New(t, region.Config{Dir: proc.LogDir(t), Name: "global", Rules: "rules: []\n", Program: "weir-global", Flags: []string{"--redis", redis.Addr}})
	answers := func(path string, status int, text string) func() bool {
		return func() bool {
			got, has := a.Probe(path)
			out, err := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "healthcheck", "http://"+a.Admin+path).CombinedOutput()
			return got == status && strings.Contains(has, text) && (err == nil) == (status == http.StatusOK) && strings.Contains(string(out), text)
		}
	}
	redis.Kill()
	a.Begin()
	proc.Eventually(t, 20*time.Second, "it has not started, and states that Redis does not answer", answers("/startedz", http.StatusServiceUnavailable, redis.Addr))
	redis.Restart()
	a.AwaitReady()
	redis.Kill()
	proc.Eventually(t, 20*time.Second, "it is not ready without Redis", answers("/readyz", http.StatusServiceUnavailable, "not ready: "))
	if !answers("/startedz", http.StatusOK, "started")() {
		t.Error("it has not started, although it was ready")
	}
	if !answers("/healthz", http.StatusOK, "ok")() {
		t.Error("it does not live")
	}
}
