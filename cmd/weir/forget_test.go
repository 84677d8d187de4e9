package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// A region is declared dead at an aggregator, which may refuse that.
func TestForgetRegion(t *testing.T) {
	aggregator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+" "+r.URL.Path != "POST /regions/eu/dead" {
			http.Error(w, "it is not dead", http.StatusConflict)
			return
		}
		_, _ = w.Write([]byte("nothing is withheld\n"))
	}))
	defer aggregator.Close()
	at := strings.TrimPrefix(aggregator.URL, "http://")
	for region, want := range map[string]string{"eu": "nothing is withheld", "us": "409 Conflict: it is not dead"} {
		out, err := exec.CommandContext(t.Context(), binary, "forget-region", region, "--admin", at).CombinedOutput()
		if (err == nil) != (region == "eu") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q, want %q", region, err, out, want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), binary, "forget-region", "eu").CombinedOutput(); err == nil || !strings.Contains(string(out), "--admin") {
		t.Errorf("without an aggregator: %v, %q", err, out)
	}
}
