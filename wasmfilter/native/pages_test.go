//go:build cgo

package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// The store does what shared data does, on any trace: pages of all tables, records, keys of three bytes that are no page's.
func TestStoreIsSharedData(t *testing.T) {
	is, want := &store{space: &space{records: map[string]*value{}}}, tabletest.New()
	rng := rand.New(rand.NewPCG(1, 2))
	keys := []string{"E\x00\x00", "E\xff\x7f", "S\x01\x00", "C\x00\x01", "D\x00\x00", "x\x00\x00", "process", "ov\x01\x02"}
	versions := map[string][2]uint32{} // of both, as they were read last
	for i := range 20_000 {
		key := []byte(keys[rng.IntN(len(keys))])
		if rng.IntN(2) == 0 {
			a, va, ok := is.Get(key)
			b, vb, there := want.Get(key)
			if ok != there || !bytes.Equal(a, b) {
				t.Fatalf("%d: %q is %q, %v, want %q, %v", i, key, a, ok, b, there)
			}
			versions[string(key)] = [2]uint32{va, vb}
			continue
		}
		v, raw := versions[string(key)], make([]byte, rng.IntN(5000))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		switch rng.IntN(4) {
		case 0:
			v = [2]uint32{table.Absent, table.Absent}
		case 1:
			v = [2]uint32{}
		}
		if got, expected := is.Set(key, raw, v[0]), want.Set(key, raw, v[1]); got != expected {
			t.Fatalf("%d: %q: outcome %v, want %v", i, key, got, expected)
		}
	}
	if is.Set([]byte("E\x00\x80"), nil, table.Absent) != table.Failed {
		t.Error("a page beyond the last one is stored")
	}
}

// A space is one for all that name it.
func TestSpaces(t *testing.T) {
	a, b, other := &store{space: spaceOf(1)}, &store{space: spaceOf(1)}, &store{space: spaceOf(2)}
	a.Set([]byte("E\x00\x00"), []byte("ann"), table.Absent)
	if raw, _, ok := b.Get([]byte("E\x00\x00")); !ok || string(raw) != "ann" {
		t.Errorf("the other worker reads %q, %v", raw, ok)
	}
	if _, _, ok := other.Get([]byte("E\x00\x00")); ok {
		t.Error("another plugin reads it, too")
	}
}

// Versions never take the numbers that mean something else, and a value that was read before is never the one of a version
// that comes after all others.
func TestVersionsGoRound(t *testing.T) {
	v := &value{version: table.Absent - 1}
	if v.write([]byte("a"), table.Absent-1) != table.Stored || v.version == table.Absent || v.version == 0 {
		t.Errorf("the version after the last is %d", v.version)
	}
	if v.write(nil, table.Absent) != table.Raced {
		t.Error("a value is created a second time")
	}
}

// Many threads count in the same pages, and no count is lost or torn.
func TestStoreHammer(t *testing.T) {
	s := &space{records: map[string]*value{}}
	const threads, each = 8, 3000
	keys := [][]byte{[]byte("E\x00\x00"), []byte("E\x01\x00"), []byte("C\x00\x00"), []byte("a record")}
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			w := &store{space: s}
			for i := range each {
				key := keys[i%len(keys)]
				for outcome := table.Raced; outcome == table.Raced; {
					raw, version, ok := w.Get(key)
					if !ok {
						version = table.Absent
					}
					var n uint64
					for at := 0; at+8 <= len(raw); at += 8 {
						m := binary.LittleEndian.Uint64(raw[at:])
						if n = m; m != binary.LittleEndian.Uint64(raw) {
							t.Errorf("a page is torn: %d beside %d", m, binary.LittleEndian.Uint64(raw))
							return
						}
					}
					next := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, n+1), 1+int(n%64))
					outcome = w.Set(key, next, version)
				}
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		raw, _, _ := (&store{space: s}).Get(key)
		if n := binary.LittleEndian.Uint64(raw); n != threads*each/uint64(len(keys)) {
			t.Errorf("%q counted to %d", key, n)
		}
	}
}
