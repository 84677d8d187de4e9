package rulebook

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// workers are rulebooks of the workers of one PoP.
func workers(store *tabletest.Store, n uint64) (all []*Rulebook) {
	for i := range n {
		p := pop.Join(store, [6]uint64{1, 2, 3, 4, 2 * i, i})
		b := New(&Config{RulesEvery: 5000}, p, pop.NewLeader(p, 1), func(*Policy) {}, func() {})
		b.Start(1000)
		all = append(all, b)
	}
	return all
}

// limits is a set of one rule with a limit.
func limits(t *testing.T, limit string) *rule.Set {
	t.Helper()
	set := fatal.Get(read.JSON([]byte(`{"rules":[{"name":"r","key":[],"limit":"` + limit + `"}]}`)))(t)
	return set
}

// A PoP that is offered different rules by two replicas takes the newer ones, once, and stays with them.
func TestNoGoingToAndFro(t *testing.T) {
	a, b := limits(t, "1/1m"), limits(t, "2/1m")
	for _, c := range []struct {
		first, second uint64 // revisions
		newer         bool   // the second ones win
	}{{5, 6, true}, {6, 5, false}, {6, 0, false}, {0, 5, true}, {0, 0, true}, {5, 5, b.Version > a.Version}} {
		all := workers(tabletest.New(), 2)
		offer := func(now lease.Millis, set *rule.Set, revision uint64) {
			for _, w := range all {
				if w.Note(now, set.Version, revision); w.lacks(now, set.Version, revision) {
					w.Offer(now, set.Version, revision, set.Encode())
				}
				w.Watch(now)
			}
		}
		offer(2000, a, c.first)
		offer(3000, b, c.second)
		want, revision, since := a, c.first, lease.Millis(2000)
		if c.newer {
			want, revision, since = b, c.second, 3000
		}
		for now := lease.Millis(4000); now < 20_000 && c.first+c.second > 0; now += 1000 {
			offer(now, a, c.first)
			offer(now+500, b, c.second)
		}
		for i, w := range all {
			if w.Version != want.Version || w.Revision != revision || w.Since != since && c.first+c.second > 0 {
				t.Errorf("%+v: worker %d has %.8s of revision %d since %d, want %.8s of %d since %d", c, i, w.Version, w.Revision, w.Since, want.Version, revision, since)
			}
		}
	}
}

// Whatever two workers fetch at the same time, the newer rules stay in force. Rules that come back as they were with a newer
// revision have that.
func TestRacingFetches(t *testing.T) {
	store := tabletest.New()
	all := workers(store, 2)
	older, newer := limits(t, "1/1m"), limits(t, "2/1m")
	store.Between = func() {
		store.Between = nil
		all[1].Offer(2000, newer.Version, 7, newer.Encode())
	}
	all[0].Offer(2000, older.Version, 6, older.Encode())
	store.Between = nil
	all[0].Note(2500, newer.Version, 9)
	for i, w := range all {
		if w.Watch(3000); w.Version != newer.Version || w.Revision != 9 {
			t.Errorf("worker %d has %.8s of revision %d, want %.8s of 9", i, w.Version, w.Revision, newer.Version)
		}
	}
}

// Rules that cannot be read are fetched once a minute by all workers together, and change nothing. The error stays as long as
// replies name them, and ends when there are others.
func TestSpoiltRules(t *testing.T) {
	all := workers(tabletest.New(), 3)
	good := limits(t, "1/1m")
	all[0].Offer(2000, good.Version, 5, good.Encode())
	fetches := 0
	see := func(from, until lease.Millis, version string, revision uint64) {
		for now := from; now < until; now += 300 {
			for _, w := range all {
				if w.Watch(now); w.Note(now, version, revision) {
					fetches++
					w.Offer(now, version, revision, []byte(`{"rules":[],"shape":"of things to come"}`))
				}
			}
		}
	}
	failed := func() (n int) {
		for i, w := range all {
			if w.Version != good.Version {
				t.Errorf("worker %d has the rules %.8s", i, w.Version)
			}
			if w.Error != "" {
				n++
			}
		}
		return n
	}
	if see(2300, 61_000, "spoilt", 6); fetches != 1 || failed() == 0 || all[0].Have(61_000) != "spoilt" {
		t.Errorf("fetched %d times within a minute, %d workers have an error", fetches, failed())
	}
	if see(61_300, 181_000, "spoilt", 6); fetches != 3 || failed() == 0 {
		t.Errorf("fetched %d times in three minutes, %d workers have an error", fetches, failed())
	}
	if see(181_000, 200_000, good.Version, 5); fetches != 3 || failed() > 0 { // the operator takes them back
		t.Errorf("%d fetches, and %d workers have an error of rules that nobody has any more", fetches, failed())
	}
	good = limits(t, "3/1m")
	all[0].Offer(201_000, good.Version, 7, good.Encode())
	if see(202_000, 203_000, good.Version, 7); failed() > 0 || all[2].Have(203_000) != good.Version {
		t.Errorf("%d workers have an error with good rules", failed())
	}
}
