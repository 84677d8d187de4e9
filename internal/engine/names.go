package engine

// DebtID names a debt among those of all holders, or regions, so that the replicas of a
// store and the store itself recognise it; 0 has no name.
func DebtID(holder []byte, debt uint64) uint64 {
	if debt == 0 {
		return 0
	}
	return max(Hash(holder, debt), 1)
}

// Hash is FNV-1a of 64 bits of a name and numbers: the same at every replica. It is not secret.
func Hash(name []byte, numbers ...uint64) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, b := range name {
		h = (h ^ uint64(b)) * prime
	}
	for _, n := range numbers {
		for range 8 {
			h = (h ^ n&0xff) * prime
			n >>= 8
		}
	}
	return h
}
