package stack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
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
		{"slow", func() { l.Slow(300 * time.Millisecond) }, true, 300 * time.Millisecond},
		{"healed, and as far away as before", l.Heal, true, 200 * time.Millisecond},
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

// A caller hears nothing of a call that was lost. Of two that are lost one arrives.
func TestLostCalls(t *testing.T) {
	const calls, share = 400, 0.3
	var arrived atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = &protocols
	server.Start()
	defer server.Close()
	l := NewLink(t, server.Listener.Addr().String())
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}

	l.Lose(share)
	var answered atomic.Int64
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			switch err := ask(3 * time.Second); {
			case err == nil:
				answered.Add(1)
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("a lost call ends with %v", err)
			}
		})
	}
	all.Wait()
	if got, want := float64(answered.Load())/calls, 1-share; math.Abs(got-want) > 0.1 {
		t.Errorf("%.2f of the calls are answered, want %.2f", got, want)
	}
	if got, want := float64(arrived.Load())/calls, 1-share/2; math.Abs(got-want) > 0.1 {
		t.Errorf("%.2f of the calls arrive, want %.2f", got, want)
	}

	l.Heal()
	for tries := 0; ask(time.Minute) != nil && tries < 10; tries++ { // Heal closes connections, also new ones of its old listener
		client.CloseIdleConnections()
	}
	for range 20 {
		if err := ask(time.Minute); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
}
