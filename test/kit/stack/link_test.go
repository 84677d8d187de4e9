package stack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestLink(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "region") }))
	defer server.Close()
	l := NewLink(t, server.Listener.Addr().String())
	ask := func(patience time.Duration) error {
		client := http.Client{Timeout: patience}
		defer client.CloseIdleConnections()
		resp, err := client.Get("http://" + l.Addr)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}

	for _, state := range []struct {
		name    string
		apply   func()
		answers bool
		atLeast time.Duration // what an answer takes, or how long to wait for none
	}{
		{"new", func() {}, true, 0},
		{"delayed", func() { l.Delay(200 * time.Millisecond) }, true, 200 * time.Millisecond},
		{"healed", l.Heal, true, 0},
		{"swallowing", l.Swallow, false, 500 * time.Millisecond},
		{"healed again", l.Heal, true, 0},
		{"cut", l.Cut, false, 0},
		{"healed at last", l.Heal, true, 0},
		{"far away", func() { l.SetTrip(200 * time.Millisecond) }, true, 200 * time.Millisecond},
		{"swallowing calls", l.SwallowCalls, false, 500 * time.Millisecond},
		{"healed, and still far away", l.Heal, true, 200 * time.Millisecond},
		{"near", func() { l.SetTrip(0) }, true, 0},
	} {
		state.apply()
		start := time.Now()
		patience := time.Minute // on a machine that is busy
		if !state.answers && state.atLeast > 0 {
			patience = state.atLeast
		}
		err := ask(patience)
		if took := time.Since(start); (err == nil) != state.answers || took < state.atLeast {
			t.Errorf("%s: %v after %v", state.name, err, took)
		}
	}
}
