package consul

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Errors of a write and of a change have the agent, the key, what Consul answers, and what to change where that can be told.
func TestKVErrors(t *testing.T) {
	const (
		full     = `raft apply failed: unable to store logs within log store, err: "write /data/raft/raft.db: no space left on device"`
		fullHint = "; the disk of a Consul server is full: make room in the file system of its data_dir"
	)
	for _, c := range []struct {
		code     int
		answer   string
		rejected bool
		end      string // of the error
	}{
		{http.StatusForbidden, "Permission denied", true, "; give a token that may write this key, in CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE"},
		{http.StatusRequestEntityTooLarge, "Too large. See https://example.org/#limit.\n", true, "#limit; Consul's kv_max_value_size and txn_max_req_len must be at least their default, 512 KiB"},
		{http.StatusTooManyRequests, "", true, "429 Too Many Requests"},
		{http.StatusInternalServerError, full, false, fullHint},
		{http.StatusInternalServerError, "rpc error making call: " + full, false, fullHint},
		{http.StatusInternalServerError, "No cluster leader", false, "; most of Consul's servers must be up, with room in the file system of their data_dir"},
		{http.StatusInternalServerError, "rpc error making call: EOF", false, "EOF)"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.answer)
		}))
		address := strings.TrimPrefix(server.URL, "http://")
		agent, _ := newAgent(t, Config{Address: address})
		for datacenter, place := range map[string]string{"": address, "dc2": address + " (dc2)"} {
			kv := agent.KV(datacenter)
			errs := []error{kv.Put(t.Context(), "a/key", []byte("value"))}
			if hint := strings.HasPrefix(c.end, ";"); hint && !c.rejected { // what a transaction answers has no code
				_, err := kv.Commit(t.Context(), Change{Set: []Pair{{Key: "a/key"}}})
				errs = append(errs, err)
			}
			for _, err := range errs {
				if rejected := errors.As(err, new(*RejectedError)); rejected != c.rejected || err == nil {
					t.Errorf("%d %s: rejected %v, want %v", c.code, c.answer, rejected, c.rejected)
				} else if text := err.Error(); !strings.Contains(text, "consul at "+place+" ") || !strings.Contains(text, " a/key: ") || !strings.HasSuffix(text, c.end) {
					t.Errorf("%d %s: %q, want the agent %s, the key, and %q at the end", c.code, c.answer, err, place, c.end)
				}
			}
		}
		server.Close()
	}
}
