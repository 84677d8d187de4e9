package edge

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// What the workers share, by key in the store. Pages of the tables have keys of
// three bytes that begin with the table's letter; these are all longer.
var (
	keyProcess  = []byte("process")   // identity of the process; written once
	keyEpoch    = []byte("epoch")     // epoch of the region's store
	keyRules    = []byte("rules2")    // generation, revision, whether bundled, compiled form
	keyRulesTag = []byte("rulestag2") // rulesTag
	keyRefused  = []byte("refused")   // refusals
	keyPlugin   = []byte("plugin")    // generation of the plugin configuration
	keyLeader   = []byte("leader")    // which worker does the background work, until when
)

const (
	enforcedTable    = 'E'
	shadowTable      = 'S'
	slotsTable       = 'C'
	shadowSlotsTable = 'D'
)

// pop is this worker's view of its PoP: what all workers of the process agree on,
// where they keep it, and which of them this one is.
type pop struct {
	store  table.Store
	holder [16]byte // names the process to the region; made by the first worker
	seed   table.Seed
	epoch  uint64 // of the region's store, as the last reply to any worker named it

	number uint64       // names this worker among all that ever lived, at random
	random uint64       // of jitter
	wall   limit.Micros // plus the monotonic clock is the time of day
}

// join reads the identity of the process, or makes it from entropy.
func (o *pop) join(store table.Store, entropy [6]uint64) {
	o.store, o.number, o.random = store, entropy[4]|1, entropy[5]|1
	var fresh [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(fresh[8*i:], entropy[i])
	}
	raw, _, ok := o.store.Get(keyProcess)
	if !ok || len(raw) != len(fresh) {
		o.store.Set(keyProcess, fresh[:], table.Absent)
		if raw, _, ok = o.store.Get(keyProcess); !ok || len(raw) != len(fresh) {
			raw = fresh[:] // a host without memory: every worker is alone
		}
	}
	copy(o.holder[:], raw)
	o.seed = table.Seed{binary.LittleEndian.Uint64(raw[16:]), binary.LittleEndian.Uint64(raw[24:])}
	o.readEpoch()
}

// readEpoch takes the epoch of the last reply to any worker, so that a worker that starts
// anew, or has made no call for long, still sends the epoch of earlier calls.
func (o *pop) readEpoch() (version uint32) {
	var r [1]uint64
	version = o.record64(keyEpoch, r[:])
	if r[0] != 0 {
		o.epoch = r[0]
	}
	return version
}

// noteEpoch notes the epoch of the region's store that a reply names.
func (o *pop) noteEpoch(epoch uint64) {
	for range table.Tries {
		if epoch == 0 || epoch == o.epoch {
			return
		}
		version := o.readEpoch()
		if epoch == o.epoch || o.setRecord64(keyEpoch, version, epoch) {
			break
		}
	}
	o.epoch = epoch
}

// record64 reads a record of n words; zeros and Absent if there is none.
func (o *pop) record64(key []byte, words []uint64) (version uint32) {
	clear(words)
	raw, version, ok := o.store.Get(key)
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

func (o *pop) setRecord64(key []byte, version uint32, words ...uint64) bool {
	b := make([]byte, 0, 8*len(words))
	for _, v := range words {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return o.store.Set(key, b, version) == table.Stored
}

// timeOfDay is the time of day at now.
func (o *pop) timeOfDay(now lease.Millis) limit.Micros {
	return limit.Micros(now)*limit.Millisecond + o.wall
}

// jitter returns 90 to 110: percent, for everything periodic.
func (o *pop) jitter() lease.Millis { return 90 + lease.Millis(o.rand()%21) }

// rand is xorshift64*: enough to keep workers out of step.
func (o *pop) rand() uint64 {
	o.random ^= o.random >> 12
	o.random ^= o.random << 25
	o.random ^= o.random >> 27
	return o.random * 0x2545f4914f6cdd1d >> 32
}

const (
	// leadFor is how long a worker does the background work before it has to claim
	// it again. A worker that serves no requests (an Envoy's main thread) takes it
	// from one that does.
	leadFor lease.Millis = 1000
	// orphaned is after how long without a leader a fenced worker takes over: the
	// plugin that fenced it is gone.
	orphaned lease.Millis = 5000
)

// leader is this worker's part in the choice of the worker that does the PoP's
// background work.
type leader struct {
	pop *pop
	cfg *Config

	generation uint64 // of the plugin configuration, see enlist
	leads      bool
	busy       bool // requests came since the last tick: an idle worker should lead
}

// enlist takes the number of the plugin configuration: that of the newest one if it
// is the same, the next number if it is another. Contexts of an old listener keep
// ticking for minutes while they drain; the number shows that they are old.
func (l *leader) enlist() {
	for range table.Tries {
		var r [2]uint64 // generation, hash of the configuration
		version := l.pop.record64(keyPlugin, r[:])
		if version != table.Absent && r[1] == l.cfg.hash {
			l.generation = r[0]
			return
		}
		if l.pop.setRecord64(keyPlugin, version, r[0]+1, l.cfg.hash) {
			l.generation = r[0] + 1
			return
		}
	}
}

// fenced reports whether a newer plugin configuration is at work.
func (l *leader) fenced() bool {
	var r [2]uint64
	return l.pop.record64(keyPlugin, r[:]) != table.Absent && r[0] != l.generation
}

// lead claims the background work, or keeps it; it is called once per tick.
func (l *leader) lead(now lease.Millis) bool {
	l.leads = l.claim(now)
	l.busy = false
	return l.leads
}

func (l *leader) claim(now lease.Millis) bool {
	var r [4]uint64 // number of the leader, until when, its generation, whether it serves requests
	version := l.pop.record64(keyLeader, r[:])
	until := lease.Millis(r[1])
	if l.fenced() {
		if version == table.Absent || now < until+orphaned {
			return false
		}
		l.enlist()
	}
	busy := word(l.busy)
	switch mine := r[0] == l.pop.number; {
	case mine && r[3] == busy && now < until-leadFor/2:
		return true
	case mine, now >= until, r[2] < l.generation, r[3] > busy:
		return l.pop.setRecord64(keyLeader, version, l.pop.number, uint64(now+leadFor), l.generation, busy)
	}
	return false
}

// word is a bool in a record.
func word(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
