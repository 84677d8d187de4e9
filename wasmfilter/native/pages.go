package main

// #include <stdlib.h>
import "C"

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// spaces are the memories that the workers of this process share, by the identity of their plugins. They are never freed,
// as the shared data of the WASM module is not: a plugin that comes back finds its leases.
var spaces struct {
	sync.Mutex
	all map[uint64]*space
}

// spaceOf returns the memory of an identity.
func spaceOf(identity uint64) *space {
	spaces.Lock()
	defer spaces.Unlock()
	if spaces.all == nil {
		spaces.all = map[uint64]*space{}
	}
	s := spaces.all[identity]
	if s == nil {
		s = &space{records: map[string]*value{}}
		spaces.all[identity] = s
	}
	return s
}

// space has the pages of tables in place, and records by their key. A key of three bytes is that of a page: the
// table's letter and the number of the page.
type space struct {
	tables [len(letters)]atomic.Pointer[pages]

	mu      sync.Mutex
	records map[string]*value
}

const (
	letters   = "CDES" // of the tables
	pageKey   = 3
	pageCount = 1 << table.MaxPagesLog2
)

type pages [pageCount]value

// value is a page or a record. Its bytes are outside of Go's memory: the collector does not look at them, and does not
// let as much again grow before it works. Envoy's overload manager counts them.
type value struct {
	mu      sync.Mutex
	version uint32 // 0: there is no value
	size    uint32
	room    uint32
	bytes   uintptr // of malloc
}

// find returns the value of a key. Without create it is nil where nothing was ever stored near it.
func (s *space) find(key []byte, create bool) *value {
	if len(key) == pageKey {
		if i := strings.IndexByte(letters, key[0]); i >= 0 {
			n := int(key[1]) | int(key[2])<<8
			p := s.tables[i].Load()
			if p == nil && create {
				s.tables[i].CompareAndSwap(nil, new(pages))
				p = s.tables[i].Load()
			}
			if p == nil || n >= pageCount {
				return nil
			}
			return &p[n]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.records[string(key)]
	if v == nil && create {
		v = &value{}
		s.records[string(key)] = v
	}
	return v
}

// read appends the value to into.
func (v *value) read(into []byte) (raw []byte, version uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append(into, v.raw()[:v.size]...), v.version
}

// raw is the memory of the value.
func (v *value) raw() []byte {
	return unsafe.Slice((*byte)(pointer(v.bytes)), v.room)
}

// pointer is that of memory of C.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// write stores a value by the rules of [table.Store].
func (v *value) write(raw []byte, version uint32) table.Outcome {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.version != 0 && version != 0 && version != v.version {
		return table.Raced
	}
	if n := uint32(len(raw)); n > v.room {
		room := (n + 63) &^ 63
		p := C.realloc(pointer(v.bytes), C.size_t(room))
		if p == nil {
			return table.Failed
		}
		v.bytes, v.room = uintptr(p), room
	}
	copy(v.raw(), raw)
	v.size = uint32(len(raw))
	if v.version++; v.version == table.Absent {
		v.version = 1
	}
	return table.Stored
}

// store is one worker's access to a space.
type store struct {
	*space
	raw []byte // of the last Get
}

func (s *store) Get(key []byte) (raw []byte, version uint32, ok bool) {
	v := s.find(key, false)
	if v == nil {
		return nil, 0, false
	}
	s.raw, version = v.read(s.raw[:0])
	return s.raw, version, version != 0
}

func (s *store) Set(key, raw []byte, version uint32) table.Outcome {
	v := s.find(key, true)
	if v == nil {
		return table.Failed
	}
	return v.write(raw, version)
}
