// Package tabletest has a [table.Store] for tests.
package tabletest

import "github.com/weirlimit/weir/wasmfilter/edge/table"

// Store is the shared data of an Envoy as its host keeps it: one counter of
// versions, and a missing key that any version creates.
type Store struct {
	Values  map[string]Value
	Version uint32
	// Between, if set, runs between reading and writing: other workers interleave.
	Between func()

	last []byte // what Get returned last: valid until the next call, as in a VM
}

// Value is one value, with its version.
type Value struct {
	Data    []byte
	Version uint32
}

// New returns an empty store.
func New() *Store { return &Store{Values: map[string]Value{}} }

// Get is [table.Store]'s.
func (s *Store) Get(key []byte) ([]byte, uint32, bool) {
	v, ok := s.Values[string(key)]
	s.last = s.lapse(v.Data)
	return s.last, v.Version, ok
}

// lapse spoils what Get returned last, and copies data to the same place if it fits.
func (s *Store) lapse(data []byte) []byte {
	for i := range s.last {
		s.last[i] = 0xee
	}
	return append(s.last[:0], data...)
}

// Set is [table.Store]'s.
func (s *Store) Set(key, data []byte, version uint32) table.Outcome {
	if f := s.Between; f != nil {
		s.Between = nil // one at a time
		f()
		s.Between = f
	}
	if v, ok := s.Values[string(key)]; ok && version != 0 && version != v.Version {
		return table.Raced
	}
	s.Version++
	s.Values[string(key)] = Value{append([]byte(nil), data...), s.Version}
	s.lapse(nil)
	return table.Stored
}

// Nowhere is a store that keeps nothing.
type Nowhere struct{}

// Get is [table.Store]'s.
func (Nowhere) Get([]byte) ([]byte, uint32, bool) { return nil, 0, false }

// Set is [table.Store]'s.
func (Nowhere) Set(_, _ []byte, _ uint32) table.Outcome { return table.Failed }
