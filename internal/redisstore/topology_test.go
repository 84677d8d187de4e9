package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// blind finds no master, and counts how often it was asked.
type blind struct {
	err   error
	asked atomic.Int64
}

func (b *blind) find(context.Context, []string) (*layout, error) {
	b.asked.Add(1)
	return new(layout), b.err
}

// However often, and by however many, the topology is asked for, and also while it
// cannot be found: look-ups slow down to one a second, and hurry again after a rest.
func TestLookUpsCalmDown(t *testing.T) {
	for name, err := range map[string]error{"nothing new": nil, "no node answers": errors.New("no node answers")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lookUpsCalmDown(t, &blind{err: err}) })
		})
	}
}

func lookUpsCalmDown(t *testing.T, finder *blind) {
	s, err := New(Config{Addrs: []string{"nowhere:1"}})
	if err != nil {
		t.Fatal(err)
	}
	s.finder = finder
	ctx, stop := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer stop()
	go s.followTopology(ctx)
	begging := func(d time.Duration) (lookUps int64) {
		before := finder.asked.Load()
		for range d / (5 * time.Millisecond) {
			for range 100 {
				s.requestReload()
			}
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
		}
		return finder.asked.Load() - before
	}
	if n := begging(time.Second); n < 7 || n > 11 {
		t.Errorf("%d look-ups in the first second, want one every %v", n, reloadPause)
	}
	if n := begging(9 * time.Second); n < 12 || n > 24 {
		t.Errorf("%d look-ups in the nine seconds after that, want fewer and fewer", n)
	}
	if n := begging(time.Minute); n < 53 || n > 66 {
		t.Errorf("%d look-ups in a minute that is not the first, want one every %v", n, reloadCalm)
	}
	if finder.err != nil {
		return
	}
	time.Sleep(5 * time.Second) // nobody asks
	if n := begging(time.Second); n < 7 {
		t.Errorf("%d look-ups in a second after a rest, want one every %v", n, reloadPause)
	}
}
