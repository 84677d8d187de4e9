package live_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// One replica of two records what PoPs report while nobody watches, and both show it. When it ends, the other one goes on:
// nothing is missing, and nothing counts twice. Rules that are not in force do not show.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		var reports, watches, past counted
		var replicas [2]*live.Collector
		var ends [2]context.CancelFunc
		for i := range replicas {
			ctx, cancel := context.WithCancel(t.Context())
			ends[i] = cancel
			replicas[i] = live.New(live.Config{
				Reports: &reports, Watches: &watches, History: &past, Region: "eu", Known: func(rule string) bool { return rule == "api" },
			})
			running.Go(func() { _ = replicas[i].Run(ctx) })
		}
		defer running.Wait()
		began := time.Now()
		requests := uint64(0)
		report10s := func(d *live.Collector, times int) {
			for range times {
				time.Sleep(10 * time.Second)
				requests += 1000
				m := report("fra1", 1)
				m.Members[0].AgeMs = uint64(time.Since(began).Milliseconds())
				m.Rules = []*quotav1.RuleUse{{Rule: "api", Admitted: requests}, {Rule: "gone", Admitted: 7}}
				take(t, d, m)
			}
		}
		report10s(replicas[0], 10)
		if n := past.puts.Load(); n < 15 || n > 25 {
			t.Errorf("the history was stored %d times in 100 s: does one replica record it?", n)
		}
		ends[0]() // it may be the one that records
		report10s(replicas[1], 10)
		time.Sleep(30 * time.Second)
		h, now, err := replicas[1].History(t.Context())
		fatal.If(t, err)
		s := h.Steps(now, time.Hour.Milliseconds())
		if len(s.Rules) != 1 || s.Rules[0].Rule != "api" {
			t.Fatalf("%+v", s.Rules)
		}
		sum, unknown := uint64(0), 0
		for i, n := range s.Rules[0].Admitted {
			if sum += n; n > 0 && !s.Known[i] {
				unknown++
			}
		}
		if sum != requests || unknown > 1 {
			t.Errorf("%d requests of %d, %d steps with requests are unknown", sum, requests, unknown)
		}
		ends[1]()
	})
}

// An aggregator has no history, and one that cannot be read is an error for 10 s and not for ever.
func TestNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, _, err := live.New(live.Config{}).History(t.Context()); !errors.Is(err, live.ErrNoHistory) {
			t.Errorf("aggregator: %v", err)
		}
		past := new(counted)
		d := live.New(live.Config{History: past})
		past.down.Store(true)
		if _, _, err := d.History(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("a store that is unavailable: %v", err)
		}
		past.down.Store(false)
		time.Sleep(10 * time.Second)
		if _, _, err := d.History(t.Context()); err != nil {
			t.Errorf("a store that answers again: %v", err)
		}
	})
}
