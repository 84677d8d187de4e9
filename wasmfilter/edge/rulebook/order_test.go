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
	return fatal.Get(read.JSON([]byte(`{"rules":[{"name":"r","key":[],"limit":"` + limit + `"}]}`)))(t)
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
	store.Between = func() { all[1].Offer(2000, newer.Version, 7, newer.Encode()) }
	all[0].Offer(2000, older.Version, 6, older.Encode())
	store.Between = nil
	all[0].Note(2500, newer.Version, 9)
	for i, w := range all {
		if w.Watch(3000); w.Version != newer.Version || w.Revision != 9 {
			t.Errorf("worker %d has %.8s of revision %d, want %.8s of 9", i, w.Version, w.Revision, newer.Version)
		}
	}
}

// The version that could not be used last is remembered, by all workers, for a minute.
func TestRejections(t *testing.T) {
	all := workers(tabletest.New(), 2)
	a, b := all[0], all[1]
	if a.unusable(500, "") || a.Have(500) != "" {
		t.Error("no version is unusable before any was rejected")
	}
	a.reject(500, "v1")
	a.reject(1000, "v2")
	for _, c := range []struct {
		at       lease.Millis
		version  string
		unusable bool
		have     string
	}{{1000, "v2", true, "v2"}, {1000, "v1", false, "v2"}, {60_999, "v2", true, "v2"}, {61_000, "v2", false, ""}} {
		if got := b.unusable(c.at, c.version); got != c.unusable || b.Have(c.at) != c.have {
			t.Errorf("at %d %s is unusable: %v, have %q, want %+v", c.at, c.version, got, b.Have(c.at), c)
		}
	}
	seen := func() lease.Millis { r, _ := a.rejection(); return r.seen }
	a.reject(70_000, "v6")
	a.Error = "rules of the region: bad"
	b.unusable(72_499, "v6") // less than half of the time between two fetches
	if seen() != 70_000 {
		t.Errorf("seen at %d", seen())
	}
	if b.unusable(72_500, "v6"); seen() != 72_500 {
		t.Errorf("seen at %d", seen())
	}
	a.clearError(82_499)
	if a.Error == "" {
		t.Error("the error ends while replies show the rules")
	}
	if a.clearError(82_500); a.Error != "" {
		t.Error("the error stays when no reply has shown the rules for twice the time between two fetches")
	}
	good := limits(t, "1/1m")
	a.Offer(89_000, "as another release encodes it", 5, good.Encode())
	if a.Version != good.Version || !b.unusable(89_000, "as another release encodes it") {
		t.Errorf("rules in another form: %.8s are in force", a.Version)
	}
	a.pop.Store.Set(keyRejected, make([]byte, 15), 0) // cut off
	if r, _ := a.rejection(); r != (rejection{}) {
		t.Errorf("rejection %+v", r)
	}
}

// The secret that one worker fetches is that of all, and nobody fetches one that the PoP has.
func TestSecretOfTheRegion(t *testing.T) {
	all := workers(tabletest.New(), 2)
	a, b := all[0], all[1]
	one, two := rule.Secret{1}, rule.Secret{2}
	if a.Secret() != nil || a.SecretFingerprint() != 0 || a.LacksSecret(2000, 0) {
		t.Error("a worker has a secret that nobody gave it, or lacks one that there is not")
	}
	if !a.LacksSecret(2000, one.Fingerprint()) || b.LacksSecret(2001, one.Fingerprint()) {
		t.Error("not one worker fetches the secret")
	}
	a.OfferSecret(nil)
	if a.OfferSecret(one[:5]); a.Secret() != nil {
		t.Error("a secret that is too short is used")
	}
	a.OfferSecret(one[:])
	if a.LacksSecret(9000, one.Fingerprint()) || b.LacksSecret(9000, one.Fingerprint()) || *a.Secret() != one || *b.Secret() != one {
		t.Error("the secret is not that of all workers")
	}
	kept := b.Secret()
	if b.OfferSecret(one[:]); b.Secret() != kept {
		t.Error("the same secret is taken anew")
	}
	if !b.LacksSecret(9000, two.Fingerprint()) {
		t.Error("another secret of the region is not fetched")
	}
	b.OfferSecret(two[:])
	if a.LacksSecret(9500, two.Fingerprint()) || *a.Secret() != two {
		t.Error("the other secret is not that of all workers")
	}
}

// Rules that replies do not name are fetched by one worker, about once an interval; those that replies name are not.
func TestWatch(t *testing.T) {
	set := limits(t, "1/1m")
	for _, c := range []struct {
		name     string
		rules    bool
		revision uint64
		noted    bool
		fetches  [2]int // in 50 s, at least and at most
	}{
		{"none in force", false, 0, false, [2]int{160, 185}},
		{"not named", true, 5, false, [2]int{9, 12}},
		{"named", true, 5, true, [2]int{0, 0}},
	} {
		all, fetches := workers(tabletest.New(), 3), 0
		if c.rules {
			all[0].Offer(2000, set.Version, c.revision, set.Encode())
			all[0].Watch(2000)
		}
		for now := lease.Millis(7000); now < 57_000; now += 100 {
			for _, w := range all {
				if c.noted {
					w.Note(now, set.Version, c.revision)
				}
				if w.Watch(now) {
					fetches++
				}
			}
		}
		if c.noted { // the first may come before a reply
			fetches = max(0, fetches-1)
		}
		if fetches < c.fetches[0] || fetches > c.fetches[1] {
			t.Errorf("%s: %d fetches, want %v", c.name, fetches, c.fetches)
		}
	}
}

// Half an interval after the last fetch a reply stands for the next one, if it named the rules within half an interval.
func TestReplyStandsForFetch(t *testing.T) {
	for _, c := range []struct {
		fetched, saw, now lease.Millis
		fetch             bool
		after             lease.Millis // when any were fetched last
	}{
		{10_000, 12_000, 12_500, false, 12_000}, {10_000, 12_000, 12_499, false, 10_000}, {10_000, 10_000, 12_500, false, 10_000},
		{7_000, 10_000, 12_499, false, 10_000}, {7_000, 10_000, 12_500, true, 12_500}, {10_000, 0, 14_499, false, 10_000},
		{10_000, 0, 15_500, true, 15_500}, {10_000, 8_000, 15_500, true, 15_500}, {10_000, 9_000, 12_500, false, 10_000},
	} {
		b, _ := policies(t, `{"name":"a","key":[],"limit":"9/1m"}`)
		b.updateTag(func(t *rulesTag) bool { t.fetched = c.fetched; return true })
		b.sawAt = c.saw
		fetch := b.Watch(c.now)
		if tag, _ := b.tag(); fetch != c.fetch || tag.fetched != c.after {
			t.Errorf("%+v: fetches %v, fetched at %d", c, fetch, tag.fetched)
		}
	}
}

// Bundled rules are in force at once, give way to those of another configuration, and not to those of the region.
func TestBundledRules(t *testing.T) {
	bundled, other, region := limits(t, "1/1m"), limits(t, "2/1m"), limits(t, "3/1m")
	store := tabletest.New()
	start := func(number uint64, set *rule.Set) (*Rulebook, bool) {
		p := pop.Join(store, [6]uint64{1, 2, 3, 4, 2 * number, number})
		b := New(&Config{RulesEvery: 5000, Rules: set}, p, pop.NewLeader(p, 1), func(*Policy) {}, func() {})
		return b, b.Start(1000 * lease.Millis(number))
	}
	first, fetch := start(1, bundled)
	if first.Version != bundled.Version || !fetch || !first.Newest() || first.Age(1500) != 500 || new(Rulebook).Age(1500) != 0 {
		t.Errorf("rules %.8s of %d ms, fetches %v", first.Version, first.Age(1500), fetch)
	}
	if second, fetch := start(2, bundled); second.Version != bundled.Version || fetch || second.Since != 1000 {
		t.Errorf("the same again: rules %.8s since %d, fetches %v", second.Version, second.Since, fetch)
	}
	third, fetch := start(7, other)
	if third.Version != other.Version || !fetch || first.Newest() {
		t.Errorf("another configuration: rules %.8s, fetches %v", third.Version, fetch)
	}
	if first.Watch(7100); first.Version != other.Version || first.Since != 7000 {
		t.Errorf("rules %.8s since %d", first.Version, first.Since)
	}
	first.Offer(8000, region.Version, 0, region.Encode())
	if fourth, fetch := start(9, bundled); fourth.Version != region.Version || fetch || fourth.Since != 8000 {
		t.Errorf("with rules of the region: %.8s since %d, fetches %v", fourth.Version, fourth.Since, fetch)
	}
}
