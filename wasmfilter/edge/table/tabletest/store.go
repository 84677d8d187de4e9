// Package tabletest has a [table.Store] for tests.
package tabletest

import "github.com/weirlimit/weir/wasmfilter/edge/table"

// Store is the shared data of an Envoy: one counter of versions, and a missing key that any version creates.
type Store struct {
	Values  map[string]*Value
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

// New returns an empty store; the zero Store keeps nothing.
func New() *Store { return &Store{Values: map[string]*Value{}} }

// Get is [table.Store]'s.
func (s *Store) Get(key []byte) ([]byte, uint32, bool) {
	v, ok := s.Values[string(key)]
	if !ok {
		v = new(Value)
	}
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

// Set is [table.Store]'s. It writes in place, and allocates nothing for a value that is there.
func (s *Store) Set(key, data []byte, version uint32) table.Outcome {
	if f := s.Between; f != nil {
		s.Between = nil // one at a time
		f()
		s.Between = f
	}
	v, ok := s.Values[string(key)]
	switch {
	case s.Values == nil:
		return table.Failed
	case !ok:
		v = new(Value)
		s.Values[string(key)] = v
	case version != 0 && version != v.Version:
		return table.Raced
	}
	s.Version++
	v.Data, v.Version = append(v.Data[:0], data...), s.Version
	s.lapse(nil)
	return table.Stored
}
