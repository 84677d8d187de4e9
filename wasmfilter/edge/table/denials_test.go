package table

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// A denial rejects requests of its key and cost until it is over, and counts what the account does not count.
func TestDenials(t *testing.T) {
	var d Denials
	const key = 5
	if d.Rejects(key, 0, 1) != nil || d.Forget(key) != 0 {
		t.Error("an empty cache knows a key")
	}
	d.Remember(key, Rejection{Until: 100, Cost: 2, RetryAt: 300})
	for _, c := range []struct {
		hash    uint64
		now     int64
		cost    int64
		rejects bool
	}{{key, 0, 2, true}, {key, 99, 2, true}, {key, 100, 2, false}, {key, 0, 1, false}, {key, 0, 3, false}, {key + 1<<denialsLog2, 0, 2, false}, {key + 1, 0, 2, false}} {
		if r := d.Rejects(c.hash, lease.Millis(c.now), c.cost); (r != nil) != c.rejects {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	d.Count(key, 3)
	d.Remember(key, Rejection{Until: 200, Cost: 1}) // of the same key: what it rejected still counts
	if n := d.Forget(key + 1<<denialsLog2); n != 0 {
		t.Errorf("another key in the same place rejected %d units", n)
	}
	if n := d.Forget(key); n != 2+2+3 || d.Rejects(key, 0, 1) != nil || d.Forget(key) != 0 {
		t.Errorf("%d units were rejected, want 7 once", n)
	}
	d.Remember(key, Rejection{Until: 100, Cost: 1})
	d.Rejects(key, 0, 1)
	d.Remember(key+1<<denialsLog2, Rejection{Until: 100, Cost: 1})
	if d.Rejects(key, 0, 1) != nil || d.Forget(key+1<<denialsLog2) != 0 {
		t.Error("a key in the place of another one has its units")
	}
	d.Remember(key, Rejection{Until: 100, Cost: 1})
	if d.Clear(); d.Rejects(key, 0, 1) != nil {
		t.Error("a denial of other rules rejects")
	}
}

// What the others publish of a key: slots until they lapse, and when some were given back.
func TestPool(t *testing.T) {
	m := newMemory()
	p := NewPool(m, 'P')
	k, other := Key{Hash: 1, Text: []byte("k")}, Key{Hash: 2, Text: []byte("o")}
	commit := func(k Key, id uint64, v Member) Outcome {
		p.Open(start, k, id)
		return p.Commit(start, k, id, v)
	}
	commit(k, 1, Member{Uses: 2, May: 3, Seen: start + 10, Until: start + 20})
	commit(other, 1, Member{Uses: 9, May: 9, Seen: start + 10, Until: start + 20})
	commit(k, 2, Member{Uses: 4, May: 5, Seen: start + 20, Until: start + 10, Gave: start - 5})
	commit(k, 3, Member{Gave: start - 7}) // matters for a second
	for _, c := range []struct {
		after int64
		id    uint64
		want  Others
	}{
		{0, 9, Others{6, 8, start - 5}}, {0, 1, Others{4, 5, start - 5}}, {0, 2, Others{2, 3, start - 7}},
		{9, 9, Others{6, 8, start - 5}}, {10, 9, Others{4, 3, start - 5}}, {19, 9, Others{4, 3, start - 5}}, {20, 9, Others{0, 0, start - 5}},
	} {
		if got := p.Open(start+lease.Millis(c.after), k, c.id); got != c.want {
			t.Errorf("%d ms later for worker %d: %+v, want %+v", c.after, c.id, got, c.want)
		}
	}
	if commit(Key{Hash: 3}, 1, Member{}) != Stored || m.values["P\x00\x00"][1] != 2 {
		t.Error("a member without slots takes a place")
	}
	size := func() int { return len(m.values["P\x00\x00"]) - poolHeader }
	for _, c := range []struct {
		after   int64
		members int // of both keys
		keys    int
	}{{0, 4, 2}, {19, 4, 2}, {20, 2, 1}, {992, 2, 1}, {993, 1, 1}, {994, 1, 1}, {995, 0, 0}} {
		if p.Sweep(start+lease.Millis(c.after), 0); size() != c.keys*keyBytes+c.members*memberBytes || int(m.values["P\x00\x00"][1]) != c.keys {
			t.Errorf("%d ms later: a page of %d bytes and %d keys, want %d members of %d keys", c.after, size(), m.values["P\x00\x00"][1], c.members, c.keys)
		}
	}
	commit(k, 1, Member{Uses: 1, Seen: start + 10})
	if commit(k, 1, Member{}); size() != 0 || m.values["P\x00\x00"][1] != 0 {
		t.Error("a worker that holds nothing any more is still in the page")
	}
	for n := range uint64(poolPerPage) {
		commit(Key{Hash: n, Text: []byte("k")}, 1, Member{Uses: 1, Seen: start + 10})
	}
	if o := commit(Key{Hash: 99, Text: []byte("k")}, 1, Member{Uses: 1, Seen: start + 10}); o != Full {
		t.Errorf("one key more than the page has places: %v", o)
	}
	for n := range uint64(maxPoolKeys - poolPerPage) {
		if o := commit(Key{Hash: 100 + n}, 1, Member{Uses: 1, Seen: start + 10}); o != Stored {
			t.Errorf("key %d without text: %v", n, o)
		}
	}
	if o := commit(Key{Hash: 200}, 1, Member{Uses: 1, Seen: start + 10}); o != Full {
		t.Errorf("one key without text more: %v", o)
	}
	p.Open(start+10, Key{Hash: 200}, 1)
	if o := p.Commit(start+10, Key{Hash: 200}, 1, Member{Uses: 1, Seen: start + 20}); o != Stored || m.values["P\x00\x00"][1] != 1 {
		t.Errorf("idle members make no room: %v, %d keys", o, m.values["P\x00\x00"][1])
	}
}
