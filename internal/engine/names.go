package engine

// DebtID names a debt among those of all holders, or regions, so that the replicas of a
// store and the store itself recognise it; 0 has no name.
func DebtID(holder []byte, debt uint64) uint64 {
	if debt == 0 {
		return 0
	}
	return max(Hash(holder, debt), 1)
}

// Hash is the same at every replica. It is not secret.
func Hash(name []byte, numbers ...uint64) uint64 {
	h := newFNV()
	h.octets(name)
	for _, n := range numbers {
		h.number(n)
	}
	return uint64(h)
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
