package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// A region is declared dead at an aggregator, which may reject that.
func TestForgetRegion(t *testing.T) {
	aggregator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "at a region") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"status": 404, "code": "unknown-operation", "detail": "there is no such operation"}`))
			return
		}
		if r.Method+" "+r.URL.Path+" "+string(text) != `POST /v1/regions:forget {"region":"eu"}`+"\n" {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"status": 409, "detail": "it is not dead"}`))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer aggregator.Close()
	at := strings.TrimPrefix(aggregator.URL, "http://")
	for region, want := range map[string]string{"eu": "nothing is withheld for region eu", "us": "it is not dead", "at a region": "name an aggregator by --admin or --context"} {
		out, err := exec.CommandContext(t.Context(), binary, "admin", "forget-region", region, "--admin", at).CombinedOutput()
		if (err == nil) != (region == "eu") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q, want %q", region, err, out, want)
		}
	}
}
