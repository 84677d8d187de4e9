package edge

import (
	"encoding/binary"

	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// What the workers share, by key in the store. Pages of the tables have keys of
// three bytes that begin with the table's letter; these are all longer.
var (
	keyProcess  = []byte("process")  // who this process is; written once
	keyCalls    = []byte("calls")    // number of the last call, epoch of the region's store
	keyRules    = []byte("rules")    // generation, and the rules in compiled form
	keyRulesTag = []byte("rulestag") // generation of the rules, since when, last fetch
	keyPlugin   = []byte("plugin")   // generation of the plugin configuration
	keyLeader   = []byte("leader")   // who does the background work, until when
)

const (
	enforcedTable = 'E'
	shadowTable   = 'S'
	slotsTable    = 'C'
)

// identity is what all workers of a process agree on. Whoever comes first makes
// it.
type identity struct {
	holder [16]byte // names the process to the region
	seed   table.Seed
	// What the worker last saw of the shared record of calls.
	epoch uint64
	ack   uint64
}

// join reads the identity of the process, or makes it from entropy.
func (w *Worker) join(entropy [6]uint64) {
	var fresh [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(fresh[8*i:], entropy[i])
	}
	raw, _, ok := w.store.Get(keyProcess)
	if !ok || len(raw) != len(fresh) {
		w.store.Set(keyProcess, fresh[:], table.Absent)
		if raw, _, ok = w.store.Get(keyProcess); !ok || len(raw) != len(fresh) {
			raw = fresh[:] // a host without memory: every worker is alone
		}
	}
	copy(w.holder[:], raw)
	w.seed = table.Seed{binary.LittleEndian.Uint64(raw[16:]), binary.LittleEndian.Uint64(raw[24:])}
}

// callRecord is the record of calls: the number of the last one, and the epoch of
// the region's store as any worker last saw it, so that a worker that starts anew
// still tells the region that there was a life before.
type callRecord struct{ seq, epoch uint64 }

func (c callRecord) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), c.seq)
	return binary.LittleEndian.AppendUint64(b, c.epoch)
}

// updateCalls changes the record of calls; false if it cannot be written.
func (w *Worker) updateCalls(change func(*callRecord)) bool {
	for range table.Tries {
		var c callRecord
		raw, version, ok := w.store.Get(keyCalls)
		if !ok {
			version = table.Absent
		} else if len(raw) == 16 {
			c = callRecord{binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:])}
		}
		change(&c)
		if w.store.Set(keyCalls, c.bytes(), version) == table.Stored {
			w.epoch = c.epoch
			return true
		}
	}
	return false
}

// nextSeq takes the number of the next call. All workers count together, since the
// region tells repeated calls from new ones by it.
func (w *Worker) nextSeq() (seq uint64, ok bool) {
	ok = w.updateCalls(func(c *callRecord) {
		c.seq++
		seq = c.seq
	})
	return seq, ok
}

// heard notes what a reply says about the region's store.
func (w *Worker) heard(seq, epoch uint64) {
	w.ack = max(w.ack, seq)
	if epoch != 0 && epoch != w.epoch {
		w.updateCalls(func(c *callRecord) { c.epoch = epoch })
	}
}

// record64 reads a record of n words; zeros and Absent if there is none.
func (w *Worker) record64(key []byte, words []uint64) (version uint32) {
	clear(words)
	raw, version, ok := w.store.Get(key)
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

func (w *Worker) setRecord64(key []byte, version uint32, words ...uint64) bool {
	b := make([]byte, 0, 8*4)
	for _, v := range words {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return w.store.Set(key, b, version) == table.Stored
}
