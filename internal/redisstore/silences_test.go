package redisstore

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Aggregators on one Redis read each other's records of silences, with one clock, and each finds what was there before
// it sets its own. Records that were made by another clock are not set, and without Redis there is an error.
func TestSilences(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores [2]*Store
	for i := range stores {
		stores[i] = start(t, Config{Addrs: []string{server.Addr}})
	}
	exchange := func(i int, after limit.Micros, eu, us string) (aggregator.Exchanged, string) {
		t.Helper()
		got, err := stores[i].Silences(t.Context(), aggregator.Records{Regions: []string{"eu", "us"}, Set: [][]byte{[]byte(eu), []byte(us)}, After: after})
		if err != nil || len(got.Found) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got, string(got.Found[0]) + "," + string(got.Found[1])
	}
	eventually(t, func() string {
		for _, s := range stores {
			if _, err := s.Silences(t.Context(), aggregator.Records{}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
	first, found := exchange(0, 0, "early", "early")
	if found != "," || first.WasSet {
		t.Errorf("at first %q, %+v", found, first)
	}
	if got, found := exchange(0, first.Now-limit.Millisecond, "a", ""); found != "," || !got.WasSet {
		t.Errorf("its own, before it is set: %q, %+v", found, got)
	}
	if got, found := exchange(1, first.Now+limit.Hour, "late", "late"); found != "a," || got.WasSet {
		t.Errorf("of the other one: %q, %+v", found, got)
	}
	if _, found := exchange(1, first.Now-limit.Millisecond, "", "b"); found != "a," {
		t.Errorf("of the other one, again: %q", found)
	}
	last, found := exchange(0, 0, "", "")
	if found != "a,b" {
		t.Errorf("of both: %q", found)
	}
	if clock := limit.Micros(time.Now().UnixMicro()); last.Now <= first.Now || last.Now > clock || clock-first.Now > limit.Minute {
		t.Errorf("the clock shows %d and then %d, want about %d", first.Now, last.Now, clock)
	}
	server.Kill()
	if got, err := stores[0].Silences(t.Context(), aggregator.Records{}); err == nil {
		t.Errorf("without Redis: %+v", got)
	}
}
