package service

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/wire"
)

// HolderID names a holder: random, made once per process.
type HolderID [16]byte

// hash is the same at every replica, never 0.
func (id HolderID) hash() uint64 {
	return max(engine.Hash(id[:]), 1)
}

// slotHolder names a holder of slots: a process has one for each of its workers,
// distinguished by the lease field, which is the number of the worker that calls. The
// order of its statements is that worker's sequence.
func slotHolder(r *wire.Request, worker uint64) uint64 {
	return max(engine.Hash(r.Holder, worker), 1)
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
