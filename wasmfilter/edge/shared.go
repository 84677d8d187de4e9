package edge

import (
	"encoding/binary"

	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// What the workers share, by key in the store. Pages of the tables have keys of
// three bytes that begin with the table's letter; these are all longer.
var (
	keyProcess  = []byte("process")   // who this process is; written once
	keyCalls    = []byte("calls")     // epoch of the region's store
	keyRules    = []byte("rules2")    // generation, revision, whether bundled, compiled form
	keyRulesTag = []byte("rulestag2") // rulesTag
	keyRefused  = []byte("refused")   // refusals
	keyPlugin   = []byte("plugin")    // generation of the plugin configuration
	keyLeader   = []byte("leader")    // who does the background work, until when
)

const (
	enforcedTable    = 'E'
	shadowTable      = 'S'
	slotsTable       = 'C'
	shadowSlotsTable = 'D'
)

// identity is what all workers of a process agree on. Whoever comes first makes
// it.
type identity struct {
	holder [16]byte // names the process to the region
	seed   table.Seed
	epoch  uint64 // of the region's store, as any worker last saw it
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

// readEpoch takes the epoch that any worker last saw, so that one that starts anew, or
// was silent for long, still tells the region that there was a life before.
func (w *Worker) readEpoch() (version uint32, other uint64) {
	var r [2]uint64 // the last call of a worker of the release before, epoch
	version = w.record64(keyCalls, r[:])
	if r[1] != 0 {
		w.epoch = r[1]
	}
	return version, r[0]
}

// heard notes what a reply says about the region's store.
func (w *Worker) heard(seq, epoch uint64) {
	w.ack = max(w.ack, seq)
	for range table.Tries {
		if epoch == 0 || epoch == w.epoch {
			return
		}
		version, other := w.readEpoch()
		if epoch == w.epoch || w.setRecord64(keyCalls, version, other, epoch) {
			break
		}
	}
	w.epoch = epoch
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
	b := make([]byte, 0, 8*len(words))
	for _, v := range words {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return w.store.Set(key, b, version) == table.Stored
}
