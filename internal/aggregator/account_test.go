package aggregator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/measure"
)

// want asks for one key as a region.
func (s *shared) want(region, key string, w lease.Want) lease.Grant {
	asks := []engine.Ask{{Policy: s.policy, Key: []byte(key), Region: region, Want: w}}
	grants := make([]lease.Grant, 1)
	s.store.Acquire(context.Background(), asks, grants)
	return grants[0]
}

// all is a want for everything.
var all = lease.Want{Need: 1, Waiting: limit.MaxCount, Want: limit.MaxCount}

// A region that states that it owes everything takes its part of the limit from the others: an equal one, or
// the one that the rules have.
func TestDebtsTakeThePartOfARegion(t *testing.T) {
	for _, sharing := range []rule.Sharing{rule.SharingProportional, rule.SharingEqual} {
		for _, c := range []struct {
			regions rule.Regions
			called  []string
			owed    int64
		}{{nil, []string{"us", "ap", "liar"}, 33}, {nil, nil, 50}, {rule.Regions{{Name: "liar", Weight: 1}, {Name: "us", Weight: 4}}, nil, 20}} {
			s := newShared(t, sharing, 1000)
			s.policy.Regions = c.regions
			for _, region := range c.called {
				s.want(region, "other", lease.Want{})
			}
			for debt := range uint64(50) {
				s.want("liar", "k", lease.Want{Overdrawn: limit.MaxCount, Debt: debt + 1, Denied: limit.MaxCount})
			}
			least := 100 - c.owed
			if sharing == rule.SharingEqual { // the liar states a demand, too
				least = 50
			}
			if got := s.want("us", "k", all).Granted; got < least || got > 100-c.owed {
				t.Errorf("sharing %v, regions %v: another region has %d of 100, want %d at least", sharing, c.regions, got, least)
			}
			measure.Has(t, s.metrics.Handler(), fmt.Sprint(`weir_region_units_rejected_total{kind="overdrawn",region="liar"} `, float64(50*limit.MaxCount-c.owed)))
		}
	}
}

// A region gives back what another one has: none of it is granted again.
func TestRegionCannotGiveBackWhatOthersHave(t *testing.T) {
	s := newShared(t, rule.SharingProportional, 1000)
	had := s.want("liar", "k", lease.Want{Need: 1, Waiting: 10, Want: 10})
	got := s.want("us", "k", all).Granted
	for range 20 {
		s.want("liar", "k", lease.Want{Unused: 150, Lease: had.Lease})
		got += s.want("us", "k", all).Granted
	}
	if got > 100 || got < 90 {
		t.Errorf("%d of 100 were granted to the other region", got)
	}
	measure.Has(t, s.metrics.Handler(), `weir_region_units_rejected_total{kind="returned",region="liar"} 2990`, `weir_region_units_returned_total{region="liar"} 10`)
}

// One region floods the table with keys, by requests, by debts, or by both. New keys of another region are
// counted as before, and the store below has half of its keys at most.
func TestOneRegionLeavesRoomForKeys(t *testing.T) {
	const room = 1024
	debt := lease.Want{Overdrawn: 1, Debt: 1}
	for name, flood := range map[string]lease.Want{"requests": all, "debts": debt, "both": {Need: 1, Waiting: 1, Want: 1, Overdrawn: 5, Debt: 1}} {
		s := newShared(t, rule.SharingProportional, room)
		s.want("us", "known", all)
		rejected := 0
		for i := range 3 * room {
			if s.want("liar", fmt.Sprint("l", i), flood).Status == lease.Unavailable {
				rejected++
			}
		}
		if n := s.counters.Stats().Keys; n > room/2+1 || n < room/2-1 {
			t.Errorf("%s: the store has %d keys, want about %d", name, n, room/2)
		}
		if name != "debts" && rejected < 3*room-room/2 {
			t.Errorf("%s: %d of %d wants were rejected", name, rejected, 3*room)
		}
		for i := range room / 4 {
			if g := s.want("us", fmt.Sprint("u", i), all); g.Granted != 100 {
				t.Fatalf("%s: new key %d of another region: %+v", name, i, g)
			}
		}
		if g := s.want("us", "known", all); g.Status != lease.Denied {
			t.Errorf("%s: a spent key: %+v", name, g)
		}
		measure.Has(t, s.metrics.Handler(), fmt.Sprintf(`weir_region_keys_rejected_total{region="liar"} %d`, rejected), fmt.Sprintf(`weir_region_keys{region="us"} %d`, room/4+1))
		s.now += 3 * limit.Hour
		if g := s.want("liar", "later", all); g.Granted != 100 {
			t.Errorf("%s: when its keys are over the region has no room: %+v", name, g)
		}
	}
}

// One region has half of the memory at most, too: long keys count for what they take.
func TestOneRegionLeavesMemory(t *testing.T) {
	const kib = 1 << 10
	s := newShared(t, rule.SharingProportional, 1000)
	s.store = aggregator.New(aggregator.Config{Store: s.counters, MaxKeys: 1000, MaxBytes: 64 * kib, Now: func() limit.Micros { return s.now }})
	for i, c := range []struct {
		region string
		others int // more regions that ask for each key: it takes 72 bytes for each
		most   int
	}{{"liar", 0, 31}, {"us", 0, 31}, {"liar", 30, 11}, {"liar", 0, 31}} {
		n := 0
		for key := range 100 {
			key := fmt.Sprintf("%d%s%0*d", i, c.region, kib-len(c.region), key)
			if s.want(c.region, key, all).Status == lease.OK {
				n++
			}
			for other := range c.others {
				s.want(fmt.Sprint("other", other), key, lease.Want{Denied: 1})
			}
		}
		if n > c.most || n < c.most/2 {
			t.Errorf("%d: %s has %d keys of 1 KiB in 64 KiB, want at most %d", i, c.region, n, c.most)
		}
		if i > 0 {
			s.now += 3 * limit.Hour // the keys are over, and make room
		}
	}
}
