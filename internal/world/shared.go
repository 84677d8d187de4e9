package world

import (
	"encoding/binary"

	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// shared is the memory that the workers of a PoP share, as a host keeps it. What Get
// returns is valid until the next call, as a table.Store promises.
type shared struct {
	ats     [mostRecords]*byte // where the key of each record was the last time
	records [mostRecords]record
	count   int          // of records
	pages   [256][]value // by the letter and the number of a page
	version uint32
	size    int // bytes of pages
}

type value struct {
	data    []byte
	version uint32 // 0: there is none
}

// record is a value that is no page. There are few, and their keys are variables of package edge
// that never change: the place of a key shows which one it is.
type record struct {
	value
	small [24]byte // has the data if it is so short: then a look at it is one at one place
	key   string
}

// mostRecords is how many package edge has at most.
const mostRecords = 8

// pageKey is the length of the key of a page: a letter and a number.
const pageKey = 3

// find returns the place of a key; nil: there is none.
func (m *shared) find(key []byte) *value {
	if len(key) != pageKey {
		return m.record(key)
	}
	pages, number := m.pages[key[0]], int(binary.LittleEndian.Uint16(key[1:]))
	if number >= len(pages) {
		return nil
	}
	return &pages[number]
}

func (m *shared) record(key []byte) *value {
	for i := range m.count {
		if m.ats[i] == &key[0] {
			return &m.records[i].value
		}
	}
	for i := range m.count {
		if r := &m.records[i]; r.key == string(key) {
			m.ats[i] = &key[0]
			return &r.value
		}
	}
	return nil
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
		r := &m.records[m.count]
		r.key, r.data = string(key), r.small[:0]
		m.ats[m.count] = &key[0]
		m.count++
		return &r.value
	}
	for m.find(key) == nil {
		m.pages[key[0]] = append(m.pages[key[0]], value{})
	}
	return m.find(key)
}
