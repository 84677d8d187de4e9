package sim

import "github.com/weirlimit/weir/wasmfilter/edge/table"

// pagesLog2 is the size of a PoP's table: the smallest that a configuration allows.
const pagesLog2 = 4

// shared is the memory that the workers of a PoP share, as a host keeps it.
type shared struct {
	values  map[string]value
	version uint32
	size    int // bytes of pages
}

type value struct {
	data    []byte
	version uint32
}

func (m *shared) Get(key []byte) ([]byte, uint32, bool) {
	v, ok := m.values[string(key)]
	return v.data, v.version, ok
}

func (m *shared) Set(key, data []byte, version uint32) table.Outcome {
	v, ok := m.values[string(key)]
	if ok && version != 0 && version != v.version {
		return table.Raced
	}
	if len(key) == 3 {
		m.size += len(data) - len(v.data)
	}
	m.version++
	m.values[string(key)] = value{append(v.data[:0:0], data...), m.version}
	return table.Stored
}
