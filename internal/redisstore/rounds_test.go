package redisstore

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/rounds"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

// rig is a store whose only node has a queue and nobody who serves it: the test
// stands in for lanes and Redis, one ask at a time.
type rig struct {
	store *Store
	node  *node
	left  map[string]int64 // units of each rule
	// stranded are those of which the give-back was lost.
	stranded map[string]int64
	early    bool // something was charged though a member had been denied before
}

// refused reports whether a member of the ask's group was denied in the first round.
func (p *pendingAsk) refused() bool {
	return slices.ContainsFunc(p.group(), func(m pendingAsk) bool {
		return m.Round == rounds.Fit && m.Grant.Status == lease.Denied
	})
}

func newRig(t *testing.T) *rig {
	s, err := New(Config{Addrs: []string{"nowhere:1"}, Now: func() limit.Micros { return limit.Day }})
	if err != nil {
		t.Fatal(err)
	}
	b := &rig{store: s, node: newNode(s, "nowhere:1")}
	for slot := range s.table {
		s.table[slot].Store(b.node)
	}
	return b
}

// reset has so many units be left of each rule, and nothing under way.
func (b *rig) reset(t *rapid.T, rules []string) {
	b.node.queue.drain()
	b.left, b.stranded, b.early = map[string]int64{}, map[string]int64{}, false
	for _, r := range rules {
		b.left[r] = rapid.Int64Range(0, 6).Draw(t, r)
	}
}

// serve does one ask of those that wait, or loses it before it is applied. It
// reports whether there was one.
func (b *rig) serve(lost bool) bool {
	if b.node.queue.len() == 0 {
		return false
	}
	for _, e := range b.node.queue.take(nil, 1) {
		switch {
		case !e.awaited():
		case lost:
			b.stranded[e.ask.Policy.Rule] += e.ask.Want.Unused
			e.fail(Network)
		default:
			b.apply(e)
		}
	}
	return true
}

// apply is what the scripts do, as far as groups are concerned.
func (b *rig) apply(e *pendingAsk) {
	w, rule := e.ask.Want, e.ask.Policy.Rule
	g := lease.Grant{Status: lease.OK}
	fits := b.left[rule] >= w.Need
	switch {
	case w.Unused > 0:
		b.left[rule] += w.Unused
	case !fits:
		g.Status = lease.Denied
	case e.mode() == script.Acquire:
		b.early = b.early || e.refused()
		g.Granted = w.Need
		b.left[rule] -= w.Need
	}
	e.call.settle(e, g, fits, None)
}

// Whatever the order in which members are decided, whatever others take meanwhile,
// is lost, or comes too late: no group is granted in part, a group of which a
// member is denied costs nothing, and what is charged is what was granted.
func TestRounds(t *testing.T) {
	rules := []string{"a", "b", "c", "d"}
	policies := map[string]*engine.Policy{}
	for _, r := range rules {
		policies[r] = fixedPolicy(t, r, 10)
	}
	b := newRig(t)
	check := func(t *rapid.T) {
		b.reset(t, rules)
		before := map[string]int64{}
		asks := drawGroups(t, rules, policies)
		maps.Copy(before, b.left)
		c := b.store.newAcquisition(asks)
		out := make([]*pendingAsk, len(asks))
		for i := range out {
			out[i] = &c.asks[i]
		}
		b.store.post(out)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				c.cut((*rounds.Group).Hasten)
			case 1: // somebody else takes a unit
				if r := rapid.SampledFrom(rules).Draw(t, "taken"); b.left[r] > 0 {
					b.left[r]--
					before[r]--
				}
			default:
				b.serve(rapid.IntRange(0, 9).Draw(t, "lost") == 0)
			}
		}
		if rapid.Bool().Draw(t, "in time") {
			for b.serve(false) {
			}
			select {
			case <-c.decided:
			default:
				t.Fatal("everything is served, and the call is not decided")
			}
		}
		grants := make([]lease.Grant, len(asks))
		c.leave(grants)
		for b.serve(false) { // what is still to be given back
		}
		if b.early {
			t.Fatal("charged beside a denial")
		}
		checkGrants(t, asks, grants)
		b.checkCharges(t, before, asks, grants)
	}
	for range 60 { // races are rare
		rapid.Check(t, check)
	}
}

// drawGroups makes one to three groups of one to four members.
func drawGroups(t *rapid.T, rules []string, policies map[string]*engine.Policy) (asks []engine.Ask) {
	for group := range uint32(rapid.IntRange(1, 3).Draw(t, "groups")) {
		for _, r := range rapid.Permutation(rules).Draw(t, "rules")[:rapid.IntRange(1, 4).Draw(t, "members")] {
			need := rapid.Int64Range(0, 2).Draw(t, "need")
			asks = append(asks, engine.Ask{Policy: policies[r], Key: []byte("k"), Group: group + 1,
				Want: lease.Want{Need: need, Waiting: need, Want: need}})
		}
	}
	return asks
}

// checkCharges compares what is left of each rule with what was granted.
func (b *rig) checkCharges(t *rapid.T, before map[string]int64, asks []engine.Ask, grants []lease.Grant) {
	for r, n := range before {
		granted := b.stranded[r]
		for i := range asks {
			if asks[i].Policy.Rule == r {
				granted += grants[i].Granted
			}
		}
		if n-b.left[r] != granted {
			t.Fatalf("%s: %d units are charged, %d granted: %+v", r, n-b.left[r], granted, grants)
		}
	}
}

// checkGrants looks at the groups one by one.
func checkGrants(t *rapid.T, asks []engine.Ask, grants []lease.Grant) {
	for i := 0; i < len(asks); {
		n := engine.GroupLen(asks[i:])
		var denied, granted bool
		for j := i; j < i+n; j++ {
			g := grants[j]
			denied = denied || g.Status == lease.Denied
			granted = granted || g.Granted > 0
			if g.Granted != 0 && g.Granted != asks[j].Want.Need || g.Status == 0 {
				t.Fatalf("ask %d: %+v", j, g)
			}
		}
		for j := i; j < i+n && !denied; j++ {
			if g := grants[j]; g.Status == lease.OK && g.Granted < asks[j].Want.Need {
				t.Fatalf("granted in part: %+v", grants[i:i+n])
			}
		}
		if denied && granted {
			t.Fatalf("granted beside a denial: %+v", grants[i:i+n])
		}
		i += n
	}
}
