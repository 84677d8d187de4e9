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
	"reflect"
	"testing"

	v1 "github.com/weirlimit/weir/api/admin/v1"
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

// World is an API that its callers call by their names.
type World struct {
	*Callers
	T       testing.TB
	Handler http.Handler
}

// Send makes a call with the token of a caller, and with If-Match unless that is empty.
func (w *World) Send(ctx context.Context, who, method, path, ifMatch string, body any) *httptest.ResponseRecorder {
	headers := []string{"Authorization", w.Bearer[who]}
	if ifMatch != "" {
		headers = append(headers, "If-Match", ifMatch)
	}
	return Call(ctx, w.Handler, method, path, body, headers...)
}

// Call is [World.Send] of a call whose answer has to have this status. It reads the answer into a value unless that is nil,
// and returns the ETag, and the problem, if the answer is one.
func (w *World) Call(who, method, path, ifMatch string, body, into any, status int) (etag string, p v1.Problem) {
	w.T.Helper()
	answer := w.Send(w.T.Context(), who, method, path, ifMatch, body)
	if answer.Code != status {
		w.T.Errorf("%s %s %+v of %s: %d %.2000s, want %d", method, path, body, who, answer.Code, answer.Body, status)
	}
	if answer.Code/100 != 2 {
		into = &p
	}
	if into != nil && answer.Code != http.StatusNoContent {
		reflect.ValueOf(into).Elem().SetZero()
		fatal.If(w.T, json.Unmarshal(answer.Body.Bytes(), into))
	}
	return answer.Header().Get("ETag"), p
}
