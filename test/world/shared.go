package world

import (
	"encoding/binary"

	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// shared is the memory that the workers of a PoP share, as a host keeps it. What Get
// returns is valid until the next call, as a table.Store promises.
type shared struct {
	records []record     // values that are no pages: a few
	pages   [256][]value // by the letter and the number of a page
	version uint32
	size    int // bytes of pages
}

type record struct {
	key string
	*value
}

type value struct {
	data    []byte
	version uint32 // 0: there is none
}

// pageKey is the length of the key of a page: a letter and a number.
const pageKey = 3

// find returns the place of a key; nil: there is none.
func (m *shared) find(key []byte) *value {
	if len(key) != pageKey {
		for i := range m.records {
			if r := &m.records[i]; r.key == string(key) {
				return r.value
			}
		}
		return nil
	}
	pages, number := m.pages[key[0]], int(binary.LittleEndian.Uint16(key[1:]))
	if number >= len(pages) {
		return nil
	}
	return &pages[number]
}

func (m *shared) Get(key []byte) ([]byte, uint32, bool) {
	v := m.find(key)
	if v == nil || v.version == 0 {
		return nil, 0, false
	}
	return v.data, v.version, true
}

func (m *shared) Set(key, data []byte, version uint32) table.Outcome {
	v := m.find(key)
	if v == nil {
		v = m.add(key)
	}
	if v.version != 0 && version != 0 && version != v.version {
		return table.Raced
	}
	if len(key) == pageKey {
		m.size += len(data) - len(v.data)
	}
	m.version++
	v.data, v.version = append(v.data[:0], data...), m.version
	return table.Stored
}

// add makes a place for a key.
func (m *shared) add(key []byte) *value {
	if len(key) != pageKey {
		m.records = append(m.records, record{string(key), new(value)})
		return m.records[len(m.records)-1].value
	}
	for m.find(key) == nil {
		m.pages[key[0]] = append(m.pages[key[0]], value{})
	}
	return m.find(key)
}
