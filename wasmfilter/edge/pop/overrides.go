package pop

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Override returns the limit and the name with a number, see [lease.Grant.Override]; an empty name: there is none.
func (o *PoP) Override(number uint16) (units int64, name string) {
	raw, _, ok := o.Store.Get(keyOverride(number))
	if !ok || len(raw) < 4 {
		return 0, ""
	}
	return int64(binary.LittleEndian.Uint32(raw)), string(raw[4:])
}

// NumberOf is the number of an override with this name and limit, which is the same for all workers, as long as the
// store lasts; 0: others have the places where it could be. The place is by a hash, as nobody lists them.
func (o *PoP) NumberOf(name []byte, units int64) uint16 {
	const places = 8
	raw := make([]byte, 4+len(name))
	binary.LittleEndian.PutUint32(raw, uint32(units))
	copy(raw[4:], name)
	hash := o.Seed.Hash(0, raw)
	for i := range uint64(places) {
		number := 1 + uint16((hash+i)%lease.MaxOverrides)
		key := keyOverride(number)
		is, _, ok := o.Store.Get(key)
		if !ok {
			o.Store.Set(key, raw, table.Absent)
			is, _, _ = o.Store.Get(key) // perhaps of another worker
		}
		if string(is) == string(raw) {
			return number
		}
	}
	return 0
}

// keyOverride is the key of the record of an override.
func keyOverride(number uint16) []byte { return []byte{'o', 'v', byte(number), byte(number >> 8)} }
