package limiter

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// HolderID names a holder: random, made once per process.
type HolderID [16]byte

// hash is the same at every replica, never 0.
func (id HolderID) hash() uint64 {
	return max(engine.Hash(id[:]), 1)
}

// holderOf is the holder that a request comes from. A worker may put its own number
// into the second half of the name, for a granter of a release without workers: that
// takes each worker for a holder, with a sequence of its own.
func holderOf(r *wire.Request) HolderID {
	id := HolderID(r.Holder)
	if r.Worker != 0 && binary.LittleEndian.Uint64(id[8:]) == r.Worker {
		clear(id[8:])
	}
	return id
}

// slotHolder names a holder of slots: a process has one for each of its workers,
// distinguished by the lease field, which is the number of the worker that calls. The
// order of its statements is that worker's sequence. A region of the release before
// takes the same name, so that replicas of both may count the same slots.
func slotHolder(r *wire.Request, worker uint64) uint64 {
	name := HolderID(r.Holder)
	if r.Worker != 0 && binary.LittleEndian.Uint64(name[8:]) == 0 {
		binary.LittleEndian.PutUint64(name[8:], worker)
	}
	return max(engine.Hash(name[:], worker), 1)
}

// requestHolder names a request as a holder of slots: a hash on which all replicas agree,
// and which clients cannot choose without the seed.
func (s *Service) requestHolder(id []byte) uint64 {
	in := make([]byte, 0, 8+len(s.seed)+MaxRequestID)
	in = binary.BigEndian.AppendUint64(in, uint64(len(s.seed)))
	in = append(append(in, s.seed...), id...)
	sum := sha256.Sum256(in)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}
