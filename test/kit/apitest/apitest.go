// Package apitest calls an admin API in tests, as callers with tokens.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Callers are who may call an API. Make them with [NewCallers].
type Callers struct {
	List   *access.List
	Bearer map[string]string // the header Authorization of each, by name
	Revoke func()            // takes all tokens out of the file
}

// NewCallers gives each name a token with the other fields of its item, such as "role: admin, prefix: team-".
func NewCallers(t proc.T, fields map[string]string) *Callers {
	c := &Callers{Bearer: map[string]string{}}
	text := "tokens:\n"
	for name, of := range fields {
		token, sum := access.NewToken()
		c.Bearer[name] = "Bearer " + token
		text += fmt.Sprintf("- { name: %s, sha256: %q, %s }\n", name, sum, of)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	list, watcher := access.Watch(path, slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
	load := func(text string) {
		proc.WriteFile(t, path, text)
		fatal.If(t, watcher.Load())
	}
	c.Revoke = func() { load("tokens: []\n") }
	load(text)
	c.List = list
	return c
}

// Call calls an operation as on a loopback address, with a body as JSON unless it is a string, and with headers as names and
// values.
func Call(ctx context.Context, h http.Handler, method, path string, body any, headers ...string) *httptest.ResponseRecorder {
	text, ok := body.(string)
	if !ok && body != nil {
		encoded, _ := json.Marshal(body) // of tests
		text = string(encoded)
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader([]byte(text)))
	r.Host = "127.0.0.1:8090"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}
