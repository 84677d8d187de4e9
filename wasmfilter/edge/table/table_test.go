package table

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"pgregory.net/rapid"
)

// memory is a Store with the host's rules.
type memory struct {
	values  map[string][]byte
	version map[string]uint32
	next    uint32
}

func newMemory() *memory {
	return &memory{values: map[string][]byte{}, version: map[string]uint32{}}
}

func (m *memory) Get(key []byte) ([]byte, uint32, bool) {
	v, ok := m.values[string(key)]
	return v, m.version[string(key)], ok
}

func (m *memory) Set(key, value []byte, version uint32) Outcome {
	if v, ok := m.version[string(key)]; ok && version != 0 && v != version {
		return Raced
	}
	m.next++
	m.values[string(key)], m.version[string(key)] = append([]byte(nil), value...), m.next
	return Stored
}

const start lease.Millis = 1_000_000

func neverIdle(*Entry, lease.Millis) bool { return false }

// drawEntry draws an entry as they occur, and as the table gives it back.
func drawEntry(t *rapid.T, now lease.Millis, key []byte) Entry {
	units := rapid.Int64Range(0, 1<<32-1)
	small := rapid.Int64Range(0, 1<<11-1)
	soon := func(name string) lease.Millis {
		return now + lease.Millis(rapid.Int64Range(1, 1<<31).Draw(t, name))
	}
	e := Entry{Rule: rapid.Uint32().Draw(t, "rule"), Key: key}
	for i := range e.Leases {
		if rapid.Bool().Draw(t, "lot") {
			e.Leases[i] = holder.Lease{Units: units.Draw(t, "units"), Expiry: soon("expiry"), Lease: rapid.Uint32().Draw(t, "lease"), Local: rapid.Bool().Draw(t, "local")}
			if rapid.Bool().Draw(t, "next") {
				e.Leases[i].From = soon("from")
			}
		}
	}
	e.Spent, e.Size = units.Draw(t, "spent"), small.Draw(t, "size")
	e.WantLog2 = rapid.Uint8Range(0, 31).Draw(t, "want")
	e.Asking = rapid.Bool().Draw(t, "asking")
	if rapid.Bool().Draw(t, "sealed") {
		e.Sealed = holder.Debt{Units: 1 + rapid.Int64Range(0, 1<<32-2).Draw(t, "units"), Number: soon("number")}
	}
	if rapid.Bool().Draw(t, "back") {
		e.Back = holder.Backoff{Until: soon("until"), Failures: rapid.Uint8Range(1, 8).Draw(t, "failures"), Unknown: rapid.Bool().Draw(t, "unknown")}
	}
	e.Overdrawn, e.Denied = units.Draw(t, "overdrawn"), units.Draw(t, "denied")
	if rapid.Bool().Draw(t, "times") {
		e.Asked, e.Reset = soon("asked"), soon("reset")
	}
	e.Rejected = e.Reset > now && rapid.Bool().Draw(t, "rejected")
	if e.Least = units.Draw(t, "need"); e.Least > 0 {
		e.RetryAt = soon("retry")
	}
	if rapid.Bool().Draw(t, "ends") {
		e.Phase, e.Ends = rapid.SampledFrom([]holder.Phase{holder.PhasePartial, holder.PhaseDenied}).Draw(t, "phase"), soon("end")
	}
	if e.Left = small.Draw(t, "left"); e.Rejected || e.Phase != holder.PhaseNone {
		e.Left = units.Draw(t, "left of a key that rejects") // by which it does
	}
	if rapid.Bool().Draw(t, "counter") {
		e.Counter = limit.State{At: limit.Micros(rapid.Int64Min(1).Draw(t, "at")), Level: rapid.Int64().Draw(t, "level"), Aux: rapid.Int64().Draw(t, "prev")}
	} else {
		e.OwnLimit = units.Draw(t, "own")
	}
	return e
}

// A table of few pages behaves like a map: what was committed is what is opened,
// whatever else is in the page.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, twin := New(newMemory(), 'E', 1, neverIdle), map[uint64]Entry{}
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += lease.Millis(rapid.IntRange(0, 10).Draw(t, "time"))
			n := rapid.Uint64Range(0, 15).Draw(t, "key")
			k := Key{Hash: n*0x9e3779b97f4a7c15 ^ n<<60, Rule: 7, Text: []byte("key")}
			got := table.Open(k)
			want, ok := twin[n]
			if !ok {
				want = Entry{Rule: 7, Key: k.Text}
			}
			if !reflect.DeepEqual(*got, want) {
				t.Fatalf("key %d:\n got %+v\nwant %+v", n, *got, want)
			}
			e := drawEntry(t, now, k.Text)
			e.Rule = 7
			*got = e
			if o := table.Commit(now); o != Stored {
				t.Fatalf("commit: %v", o)
			}
			twin[n] = e
		}
	})
}

// A page that is about to get a new base keeps the end of a month to the millisecond. It gets that when it is older.
func TestLongTimes(t *testing.T) {
	table := New(newMemory(), 'E', 0, neverIdle)
	table.Open(Key{Hash: 1})
	table.Commit(start)
	now := table.page.base + rebaseAfter
	if table.Open(Key{Hash: 1}); now < start {
		t.Fatal("the page is not that old")
	}
	k, end := Key{Hash: 2}, now+31*day+day/2
	e := table.Open(k)
	e.Phase, e.Ends, e.Least, e.RetryAt, e.Reset = holder.PhaseDenied, now+1, 1, end, end
	table.Commit(now)
	if e = table.Open(k); e.Reset != end || e.RetryAt != end || table.page.base != now-rebaseAfter {
		t.Errorf("reset at %d, retry at %d, want %d; base %d", e.Reset, e.RetryAt, end, table.page.base)
	}
	table.Visit(now, 0, func(*Entry) bool { return true })
	if table.page.base != now-rebaseAfter {
		t.Errorf("a page of ten days gets the base %d", table.page.base)
	}
	table.Open(k)
	if table.Commit(now + 1); table.page.base != now+1-rebaseTo {
		t.Errorf("an older page gets the base %d", table.page.base)
	}
}

// The hash is SipHash-1-3, by another implementation.
func TestHash(t *testing.T) {
	for key, want := range map[string]uint64{
		"":                            0xdb6d55c728a14a66,
		"seven b":                     0x57e8a866fda71bb9,
		"8 bytes.":                    0xec3acd82c5f34454,
		"a key of 27 bytes, as longs": 0x1d895e26befe128c,
	} {
		if got := (Seed{1, 2}).Hash(5, []byte(key)); got != want {
			t.Errorf("%q: %#x, want %#x", key, got, want)
		}
	}
}

// A full page forgets what is idle, and nothing else.
func TestFullPage(t *testing.T) {
	idle := func(e *Entry, _ lease.Millis) bool { return e.Overdrawn == 0 }
	table := New(newMemory(), 'E', 0, idle)
	put := func(n uint64, overdrawn int64) Outcome {
		table.Open(Key{Hash: n}).Overdrawn = overdrawn
		return table.Commit(start)
	}
	for n := range uint64(PageEntries) {
		if o := put(n, int64(n%2)); o != Stored {
			t.Fatalf("entry %d: %v", n, o)
		}
	}
	for n := range uint64(PageEntries / 2) {
		if o := put(100+n, 1); o != Stored {
			t.Fatalf("in place of an idle entry: %v", o)
		}
	}
	if o := put(200, 1); o != Full {
		t.Fatalf("beyond all room: %v", o)
	}
	if put(1, 5) != Stored || table.Open(Key{Hash: 1}).Overdrawn != 5 {
		t.Error("an entry that was there cannot be changed in a full page")
	}
	if c := table.Counts; c.Full != 1 || c.Evicted != PageEntries/2 {
		t.Errorf("counts %+v", c)
	}
}

// Which entry of a full page makes room. An entry is written as its rule and what it has: d nothing, l a lease,
// m one that lasts longer, s a share, o a debt, c a counter.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		page []string // and as many of the last one as fill the page
		rule uint32
		gone string // empty: none, the page stays full
	}{
		{[]string{"1l", "1d", "1l"}, 1, "1d"},
		{[]string{"1m", "1l", "1m"}, 1, "1l"},
		{[]string{"1s", "1m", "1s"}, 1, "1m"},
		{[]string{"1o", "1s", "1o"}, 1, "1s"},
		{[]string{"1c", "1s", "1c"}, 1, "1s"},
		{[]string{"1o"}, 1, ""},
		{[]string{"1c"}, 1, ""},
		{[]string{"2d", "2d", "1m"}, 1, "1m"}, // of the rule with the most places
		{[]string{"2d", "2d", "1m"}, 2, "1m"},
		{[]string{"2d", "2d", "1m"}, 3, "1m"},
		{[]string{"2d", "2d", "1o"}, 3, "2d"}, // but a pinned one last
		{[]string{"2d", "2d", "1o"}, 1, ""},   // and none of a rule with fewer
		{[]string{"2l", "2l", "1o"}, 2, "2l"},
		{[]string{"1o"}, 2, "1o"},
		{[]string{"1c"}, 2, "1c"},
		{[]string{"2c", "2c", "2c", "2c", "2c", "2c", "2c", "1c"}, 2, "1c"},
		{[]string{"2c", "2c", "2c", "2c", "2c", "2c", "2c", "2c", "1c"}, 2, ""}, // ownPlaces
		{[]string{"2o", "2o", "2o", "2o", "2o", "2o", "2o", "3o", "1o"}, 3, "1o"},
	} {
		t.Run(fmt.Sprint(c.page, " ", c.rule), func(t *testing.T) {
			merged := int64(0)
			table := New(newMemory(), 'E', 0, neverIdle)
			table.Eviction.Merge = func(shared, e *Entry, _ lease.Millis) bool {
				merged += e.Counter.Level
				shared.Counter = limit.State{At: 1, Level: shared.Counter.Level + e.Counter.Level}
				return true
			}
			var evicted []int64
			table.Eviction.Gone = func(e *Entry) { evicted = append(evicted, e.Overdrawn) }
			kind := func(n uint64) string { return c.page[min(int(n), len(c.page)-1)] }
			for n := range uint64(PageEntries) {
				e := table.Open(Key{Hash: n, Rule: uint32(kind(n)[0] - '0'), Text: []byte{byte(n)}})
				switch kind(n)[1] {
				case 'l':
					e.Leases[0] = holder.Lease{Units: 1, Expiry: start + 1000}
				case 'm':
					e.Leases[1] = holder.Lease{Units: 1, Expiry: start + 2000}
				case 's':
					e.Leases[0] = holder.Lease{Local: true, Expiry: start + 1}
				case 'o':
					e.Overdrawn = 5
				case 'c':
					e.Counter = limit.State{At: 1, Level: 7}
				}
				table.Commit(start)
			}
			table.Open(Key{Hash: 100, Rule: c.rule}).Counter.At = 1
			outcome := table.Commit(start)
			gone := ""
			for n := range uint64(PageEntries) {
				k := Key{Hash: n, Rule: uint32(kind(n)[0] - '0')}
				if table.Open(k); table.start == table.end {
					gone += kind(n)
					if _, shared := table.OpenShared(k); shared != (kind(n)[1] == 'c') {
						t.Errorf("a key without a place has a shared entry: %v", shared)
					}
				}
			}
			counts := Counts{}
			switch {
			case c.gone == "" || c.gone[1] == 'c':
				counts.Full = 1
			default:
				counts.Evicted = 1
			}
			if gone != c.gone || (outcome == Stored) != (c.gone != "") || *table.Counts != counts {
				t.Errorf("%q made room, outcome %v, counts %+v", gone, outcome, *table.Counts)
			}
			if strings.HasSuffix(gone, "c") { // and the next one joins it
				table.Open(Key{Hash: 101, Rule: 4})
				table.Commit(start)
				if e, shared := table.OpenShared(Key{Hash: 102, Rule: 1}); !shared || e.Counter.Level != 14 || table.page.count != PageEntries+1 {
					t.Errorf("two counters are shared as %+v in a page of %d", *e, table.page.count)
				}
			}
			if strings.HasSuffix(gone, "c") != (merged > 0) || strings.HasSuffix(gone, "o") != reflect.DeepEqual(evicted, []int64{5}) {
				t.Errorf("%d merged, evicted %d", merged, evicted)
			}
		})
	}
}

// countShared counts a unit in the entry of a key or, where it finds no place, in the shared entry of its rule.
func countShared(table *Table, k Key) Outcome {
	e, _ := table.OpenShared(k)
	e.Counter = limit.State{At: 1, Level: e.Counter.Level + 1}
	outcome := table.Commit(start)
	if outcome == Full {
		table.Join().Counter = limit.State{At: 1, Level: 1}
		outcome = table.Commit(start)
	}
	return outcome
}

// Counters without a place share one for each rule, of so many rules.
func TestSharedEntries(t *testing.T) {
	table := New(newMemory(), 'E', 0, neverIdle)
	for n := range uint64(PageEntries) {
		countShared(table, Key{Hash: n, Rule: 1})
	}
	for rule := range uint32(maxShared) {
		for n := range uint64(3) {
			if o := countShared(table, Key{Hash: 100 + n, Rule: 2 + rule}); o != Stored {
				t.Fatalf("rule %d: %v", rule, o)
			}
		}
		if e, shared := table.OpenShared(Key{Hash: 200, Rule: 2 + rule}); !shared || e.Counter.Level != 3 || e.Rule != 2+rule {
			t.Errorf("rule %d: shared %v, entry %+v", rule, shared, *e)
		}
	}
	if o := countShared(table, Key{Hash: 100, Rule: 2 + maxShared}); o != Full {
		t.Errorf("one more shared entry: %v", o)
	}
	if e, shared := table.OpenShared(Key{Hash: 5, Rule: 1}); shared || e.Counter.Level != 1 {
		t.Errorf("a key with a place: shared %v, entry %+v", shared, *e)
	}
	table.Eviction.Merge = func(_, _ *Entry, _ lease.Millis) bool { return true }
	if o := countShared(table, Key{Hash: 100, Rule: 99}); o != Full {
		t.Errorf("a counter made room without a place for another shared entry: %v", o)
	}
}

// Visit drops what is not kept and writes only what changed. It knows the keys that have units or a debt. A page that cannot be read
// is empty.
func TestVisit(t *testing.T) {
	m := newMemory()
	table := New(m, 'E', 0, neverIdle)
	for n := range uint64(8) {
		e := table.Open(Key{Hash: n, Rule: uint32(n), Text: []byte{'k', byte('0' + n)}})
		e.Asked = start + 1
		switch n {
		case 1, 2:
			e.Leases[n-1] = holder.Lease{Units: 1, Expiry: start + 9}
		case 3, 4:
			e.Overdrawn = int64(n)
		}
		table.Commit(start)
	}
	visit := func(drops uint32) (keys string) {
		table.Visit(start+1, 0, func(e *Entry) bool { keys += string(e.Key); return e.Rule != drops })
		return keys
	}
	writes := m.next
	if keys := visit(99); keys != "k1k2k3k4" || m.next != writes {
		t.Errorf("saw the keys %q, wrote %d times", keys, m.next-writes)
	}
	if visit(3); table.Open(Key{Hash: 3}).Overdrawn != 0 || table.Open(Key{Hash: 4}).Overdrawn != 4 {
		t.Error("not the entry that was to go is gone")
	}
	for n, page := range [][]byte{{layout}, {layout + 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {layout, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
		m.Set([]byte("E\x00\x00"), page, 0)
		if visit(99); table.Counts.Corrupt != uint64(min(n+1, 2)) {
			t.Errorf("page %d: %d are corrupt", n, table.Counts.Corrupt)
		}
	}
}

// Few keys cost little.
func TestSize(t *testing.T) {
	m := newMemory()
	table := New(m, 'E', 0, neverIdle)
	e := table.Open(Key{Hash: 1, Rule: 3, Text: []byte("user-123456")})
	e.Leases[0] = holder.Lease{Units: 10, Expiry: start + 10_000, Lease: 77}
	e.Asked, e.Reset, e.Spent, e.Size = start, start+60_000, 5, 10
	table.Commit(start)
	if n := len(m.values["E\x00\x00"]) - headerBytes; n > 56 {
		t.Errorf("an entry with one lease takes %d bytes", n)
	}
}

// Whatever a page holds, reading it does not fail, and it can be written again.
func FuzzPage(f *testing.F) {
	m := newMemory()
	table := New(m, 'E', 0, neverIdle)
	e := table.Open(Key{Hash: 9, Text: []byte("k")})
	e.Overdrawn, e.Leases[0] = 3, holder.Lease{Units: 4, Expiry: start + 9, From: start + 3}
	table.Commit(start)
	f.Add(m.values["E\x00\x00"])
	f.Add([]byte{layout, 1, 0, 0, 0, 0, 0, 0, 0, 0, 255})
	for n := range uint64(PageEntries) {
		e := table.Open(Key{Hash: 100 + n, Rule: uint32(n) % 4 * 5, Text: []byte("k")})
		e.Counter, e.Overdrawn = limit.State{At: 1, Level: int64(n)}, int64(n%3)
		table.Commit(start)
	}
	f.Add(m.values["E\x00\x00"])
	f.Fuzz(func(t *testing.T, page []byte) {
		m := newMemory()
		m.Set([]byte("E\x00\x00"), page, Absent)
		table := New(m, 'E', 0, neverIdle)
		table.Visit(start, 0, func(e *Entry) bool {
			if e.Overdrawn < 0 || e.Leases[0].Units < 0 || e.WantLog2 > 32 {
				t.Fatalf("%+v", e)
			}
			return true
		})
		table.Eviction.Merge = func(shared, e *Entry, _ lease.Millis) bool {
			shared.Counter = limit.State{At: 1, Level: shared.Counter.Level + e.Counter.Level}
			return true
		}
		for rule := range uint32(9) {
			if countShared(table, Key{Hash: 10 + uint64(rule), Rule: rule, Text: []byte("k")}); table.page.count > maxEntries {
				t.Fatalf("%d entries", table.page.count)
			}
		}
		k := Key{Hash: 9, Text: []byte("k")}
		table.Open(k).Overdrawn = 8
		if o := table.Commit(start); o == Stored && table.Open(k).Overdrawn != 8 {
			t.Fatal("what was written is not there")
		}
	})
}

func FuzzPoolPage(f *testing.F) {
	m := newMemory()
	p := NewPool(m, 'P')
	p.Open(5, Key{Hash: 1}, 3)
	p.Commit(5, Key{Hash: 1}, 3, Member{Uses: 2, May: 3, Until: 9, Seen: 9})
	f.Add(m.values["P\x00\x00"])
	f.Fuzz(func(t *testing.T, page []byte) {
		m := newMemory()
		m.Set([]byte("P\x00\x00"), page, Absent)
		p := NewPool(m, 'P')
		before := p.Open(5, Key{Hash: 1}, 3)
		if before.Uses < 0 || before.May < 0 {
			t.Fatalf("%+v", before)
		}
		if p.Commit(5, Key{Hash: 1}, 3, Member{Uses: 7, May: 8, Until: 9, Seen: 9}) != Stored {
			return
		}
		if o := p.Open(5, Key{Hash: 1}, 4); o.Uses < 7 || o.May < 8 {
			t.Fatalf("what was written is not there: %+v", o)
		}
		if o := p.Open(5, Key{Hash: 1}, 3); o != before {
			t.Fatalf("others: %+v before, %+v after", before, o)
		}
		p.Sweep(9999, 0)
	})
}
