package limiter

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// HolderID names a holder: random, made once per process.
type HolderID [16]byte

// hash is the same at every replica, never 0.
func (id HolderID) hash() uint64 {
	h := newFNV()
	h.octets(id[:])
	return max(uint64(h), 1)
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

// DebtID names a debt among those of all holders, or regions, so that the replicas of a
// store and the store itself recognise it; 0 has no name.
func DebtID(holder []byte, debt uint64) uint64 {
	if debt == 0 {
		return 0
	}
	h := newFNV()
	h.octets(holder)
	h.number(debt)
	return max(uint64(h), 1)
}

// ReturnID names what want i of a call gives back: the same at whatever replica a copy of
// the call arrives, and at no other want.
func ReturnID(holder []byte, worker, seq uint64, i int) uint64 {
	h := newFNV()
	h.octets(holder)
	h.number(worker)
	h.number(seq)
	h.number(uint64(i))
	return uint64(h)
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
	h := newFNV()
	h.octets(name[:])
	h.number(worker)
	return max(uint64(h), 1)
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

// fnv is FNV-1a of 64 bits.
type fnv uint64

func newFNV() fnv { return 14695981039346656037 }

func (h *fnv) octet(b byte) { *h = (*h ^ fnv(b)) * 1099511628211 }

func (h *fnv) octets(bytes []byte) {
	for _, b := range bytes {
		h.octet(b)
	}
}

func (h *fnv) text(s string) {
	h.number(uint64(len(s)))
	for i := range len(s) {
		h.octet(s[i])
	}
}

func (h *fnv) number(n uint64) {
	for range 8 {
		h.octet(byte(n))
		n >>= 8
	}
}
