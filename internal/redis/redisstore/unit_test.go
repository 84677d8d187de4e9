package redisstore

import (
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/redis/topology"
)

func TestConfigIsChecked(t *testing.T) {
	good := Config{Redis: topology.Config{Addrs: []string{"localhost:1"}}}
	for want, bad := range map[string]Config{"1 to 64": {Redis: good.Redis, Lanes: -1}, "queue of -1": {Redis: good.Redis, Queue: -1}} {
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to have %q", err, want)
		}
	}
	s, err := New(good)
	if err != nil || s.config.Lanes != DefaultLanes || s.config.Queue != defaultQueue {
		t.Errorf("defaults: %+v, %v", s.config, err)
	}
}

func TestQueue(t *testing.T) {
	q := newQueue(4)
	all := make([]*pendingAsk, 6)
	for i := range all {
		all[i] = &pendingAsk{hashSlot: uint16(i)}
	}
	if n := q.put(all); n != 4 {
		t.Fatalf("%d of 6 found room in a queue of 4", n)
	}
	got := q.take(nil, 3)
	if n := q.put(all[4:]); n != 2 || q.len() != 3 {
		t.Fatalf("after three were taken %d of 2 found room, %d are in it", n, q.len())
	}
	got = q.take(got, 9)
	for i, e := range got {
		if e != all[i] {
			t.Fatalf("place %d: %d", i, e.hashSlot)
		}
	}
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if got := q.take(nil, 9); len(got) != 0 {
				t.Errorf("taken of a queue that was closed: %d", len(got))
			}
		})
	}
	q.close()
	waiting.Wait()
	if n := q.put(all); n != 0 {
		t.Errorf("%d were put into a closed queue", n)
	}
}
