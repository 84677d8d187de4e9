package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const restartRules = `
rules:
  - { name: quota, match: { path: /quota }, timeout: 1s, key: [ { header: x-user } ], limit: 1000/1d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
  - { name: healed, match: { path: /healed }, timeout: 1s, key: [ { header: x-user } ], limit: 10/2s,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
`

// Whoever is killed, with units on lease, and started again: a window admits its limit at
// most, one more each time where it is the region, requests are answered all the time, what was spent and
// saved stays so, what was not used is whole, and limits hold afterwards.
func TestRestarts(t *testing.T) {
	t.Parallel()
	const limit = 1000
	s := stack.Start(t, stack.Config{Rules: restartRules})
	awaitRules(t, s)
	load := func(user string) drive.Load {
		return drive.Load{Addrs: s.Addrs(), Request: drive.Get("/quota", "x-user", user)}
	}

	t.Run("PoP", func(t *testing.T) {
		l := load("bob")
		l.Count = 300
		before := offer(t, l).OK()
		s.PoPs[0].Kill()
		s.PoPs[0].Start()
		awaitRules(t, s)
		l.Count = 1500
		after := offer(t, l).OK()
		// What the PoP held is lost to everybody: it asked for as much as it used,
		// or a 32nd of the limit, and twice that while it doubles.
		if n := before + after; n > limit || n < limit-2*300 {
			t.Errorf("admitted %d, want %d to %d", n, limit-2*300, limit)
		}
		if before != 300 {
			t.Errorf("admitted %d of the first 300", before)
		}
	})
	t.Run("region, under load", func(t *testing.T) {
		// What it granted since it saved last is gone.
		l := load("ann")
		l.PerSecond = 800
		var admitted int64
		for range 3 {
			l.Until = time.Now().Add(time.Second)
			done := make(chan *drive.Result)
			go func() { done <- try(t, l) }()
			time.Sleep(500 * time.Millisecond)
			s.Region.Kill()
			s.Region.Start()
			tally := <-done
			if n := tally.Other(200, 429); n > 0 {
				t.Errorf("%d of %d got neither 200 nor 429: %v, %v", n, tally.Sent(), tally.Status, tally.FirstError)
			}
			admitted += tally.OK()
		}
		if admitted > 4*limit || admitted < 200 {
			t.Errorf("admitted %d over three restarts, want 200 (half a second's load, on a slow machine) to %d", admitted, 4*limit)
		}
		t.Logf("admitted %d of %d over three restarts", admitted, limit)
	})
	t.Run("region, with a spent key and a new one", func(t *testing.T) {
		l := load("ann")
		l.Count = 3 * limit
		_ = try(t, l)
		saves := func() float64 { return s.Region.Metrics()["weir_state_saves_total"] }
		begun := saves()
		proc.Eventually(t, 30*time.Second, "two saves, of which one began by now", func() bool {
			_ = try(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/quota", "x-user", fmt.Sprint("dan", time.Now().UnixNano())), Count: 1})
			return saves() >= begun+2
		})
		s.Region.Kill()
		s.Region.Start()
		l.Count = 200
		if n := try(t, l).OK(); n > 20 {
			t.Errorf("%d requests of a spent key were admitted after the region was killed", n)
		}
		proc.Eventually(t, 20*time.Second, "all workers call the region again", func() bool {
			user := fmt.Sprint("probe-", time.Now().UnixNano(), "-")
			return offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.GetEach("/quota", "x-user", user), Count: 64}).OK() == 64
		})
		l = load("cyd")
		l.Count = 200
		if n := offer(t, l).OK(); n != 200 {
			t.Errorf("%d of 200 requests of a key that nobody used were admitted after the region was killed", n)
		}
	})
	t.Run("healed", func(t *testing.T) { heals(t, s) })
}
