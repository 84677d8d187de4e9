// Package pop is what the workers of a point of presence (PoP) agree on: the identity of
// their process, the time of day, and which of them does
// the background work. They agree through small records in a [table.Store], each of which
// is changed by compare-and-set.
//
// The package is pure: time and randomness are arguments. Nothing in it is safe for
// concurrent use; each worker has a PoP and a Leader of its own.
package pop

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Records by key in the store. Pages of the tables have keys of three bytes; the keys of
// all records are longer.
var (
	keyProcess = []byte("process") // identity of the process; written once
	keyPlugin  = []byte("plugin")  // generation of the plugin configuration
	keyLeader  = []byte("leader")  // which worker does the background work, until when
	keyWatched = []byte("watched") // until when somebody watches the running system
)

// PoP is this worker's view of its PoP: what all workers of the process agree on,
// where they keep it, and which of them this one is.
type PoP struct {
	Store  table.Store
	Holder [16]byte // names the process to the region; made by the first worker
	Seed   table.Seed
	Number uint64 // names this worker among all that ever lived, at random

	random uint64       // of jitter
	wall   limit.Micros // plus the monotonic clock is the time of day
}

// Join reads the identity of the process, or makes it from entropy: six words of real
// randomness.
func Join(store table.Store, entropy [6]uint64) *PoP {
	o := &PoP{Store: store, Number: entropy[4] | 1, random: entropy[5] | 1}
	var fresh [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(fresh[8*i:], entropy[i])
	}
	raw, _, ok := o.Store.Get(keyProcess)
	if !ok || len(raw) != len(fresh) {
		o.Store.Set(keyProcess, fresh[:], table.Absent)
		if raw, _, ok = o.Store.Get(keyProcess); !ok || len(raw) != len(fresh) {
			raw = fresh[:] // a host without memory: every worker is alone
		}
	}
	copy(o.Holder[:], raw)
	o.Seed = table.Seed{binary.LittleEndian.Uint64(raw[16:]), binary.LittleEndian.Uint64(raw[24:])}
	return o
}

// Record reads a record of n words; zeros and Absent if there is none.
func (o *PoP) Record(key []byte, words []uint64) (version uint32) {
	clear(words)
	raw, version, ok := o.Store.Get(key)
	if !ok {
		return table.Absent
	}
	if len(raw) == 8*len(words) {
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(raw[8*i:])
		}
	}
	return version
}

// SetRecord writes a record of words over the version that was read; false if another worker
// was faster.
func (o *PoP) SetRecord(key []byte, version uint32, words ...uint64) bool {
	b := make([]byte, 0, 8*len(words))
	for _, v := range words {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return o.Store.Set(key, b, version) == table.Stored
}

// Watched is until when somebody watches, by the answers to any worker; 0: nobody did.
func (o *PoP) Watched() lease.Millis {
	var until [1]uint64
	o.Record(keyWatched, until[:])
	return lease.Millis(until[0])
}

// SetWatched tells all workers that somebody watches until then: one without requests has no answer that says so.
func (o *PoP) SetWatched(until lease.Millis) {
	var before [1]uint64
	o.SetRecord(keyWatched, o.Record(keyWatched, before[:]), uint64(until)) // if another worker was faster, it heard the same
}

// SetClock sets which time of day it is at now; at least once a minute.
func (o *PoP) SetClock(now lease.Millis, wall limit.Micros) {
	o.wall = wall - limit.Micros(now)*limit.Millisecond
}

// TimeOfDay is the time of day at now.
func (o *PoP) TimeOfDay(now lease.Millis) limit.Micros {
	return limit.Micros(now)*limit.Millisecond + o.wall
}

// Jitter returns 90 to 110 %, for everything periodic.
func (o *PoP) Jitter() lease.Percent { return 90 + lease.Percent(o.rand()%21) }

// UpTo returns 0 to most, at random; below 2^32, which is 49 days.
func (o *PoP) UpTo(most uint64) uint64 { return o.rand() % (most + 1) }

// rand is xorshift64*, 32 bits of it: enough to keep workers and clients out of step.
func (o *PoP) rand() uint64 {
	o.random ^= o.random >> 12
	o.random ^= o.random << 25
	o.random ^= o.random >> 27
	return o.random * 0x2545f4914f6cdd1d >> 32
}
