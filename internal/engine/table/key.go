package table

import "bytes"

// storedKey is the copy of a key. A short one, as most are, lies in the entry
// itself: comparing it costs no further access to memory.
type storedKey struct {
	n     uint16 // length of a short one
	short [30]byte
	long  []byte // a long one; nil: it is short
}

// set copies a key.
func (k *storedKey) set(key []byte) {
	if len(key) <= len(k.short) {
		k.n, k.long = uint16(copy(k.short[:], key)), nil
		return
	}
	k.long = bytes.Clone(key)
}

func (k *storedKey) equal(key []byte) bool {
	if len(key) <= len(k.short) {
		return k.long == nil && string(k.short[:k.n]) == string(key)
	}
	return bytes.Equal(k.long, key)
}

// bytes is the key; it is valid for as long as the entry is.
func (k *storedKey) bytes() []byte {
	if k.long != nil {
		return k.long
	}
	return k.short[:k.n:k.n]
}
