// Package topkeys finds the keys that come most often in a stream of requests, in bounded
// memory: the space saving sketch of Metwally, Agrawal and El Abbadi (2005), whose counts
// decay.
//
// A [Sketch] has a counter for each of [Counters] keys. A key that has none takes that of the
// key with the least count, and goes on counting from there: its count is too large by at
// most what it took over. So for every key
//
//	count - over <= true count <= count
//
// and a key without a counter came at most as often as the least count says. The true count
// decays as the counts do.
//
// The package is pure. Nothing in it is safe for concurrent use.
package topkeys

import "github.com/weirlimit/weir/internal/rule"

const (
	// Counters is how many keys a sketch counts.
	Counters = 512
	// One is a request that has just come, in counts: they are thousandths of one.
	One    = 1000
	places = 4 * Counters // of the index; a power of two
)

// Sketch counts keys. Create it with [New]; it has 75 kB and allocates nothing more.
type Sketch struct {
	used     int // counters
	heap     [Counters]node
	counters [Counters]counter
	index    [places]uint16 // by hash: the counter's number plus 1; 0: free
}

// node is a place in the heap, whose first one has the least count.
type node struct {
	count   uint64
	counter uint16
}

type counter struct {
	hash uint64
	over uint64
	own  int64
	rule uint32
	at   uint16 // place in the heap
	size uint8  // of the text
	text [rule.MaxKey]byte
}

// New returns a sketch that has counted nothing.
func New() *Sketch { return new(Sketch) }

// Add counts one request. hash names the key, with all that tells its counter from others:
// two with one hash are one key. It must be one that nobody can choose. of, its rule, and text, at most
// [rule.MaxKey] bytes, are kept with it as they were first, and own, its limit, as it was last.
func (s *Sketch) Add(hash uint64, of uint32, own int64, text []byte) {
	place := hash % places
	for ; s.index[place] != 0; place = (place + 1) % places {
		if c := &s.counters[s.index[place]-1]; c.hash == hash {
			c.own = own
			s.heap[c.at].count += One
			s.sink(int(c.at))
			return
		}
	}
	at := 0
	if s.used < Counters {
		at, s.used = s.used, s.used+1
		s.heap[at].counter = uint16(at)
	} else {
		s.drop(s.counters[s.heap[0].counter].hash)
		for place = hash % places; s.index[place] != 0; place = (place + 1) % places {
		}
	}
	n := &s.heap[at]
	s.index[place] = n.counter + 1
	c := &s.counters[n.counter]
	c.hash, c.over, c.rule, c.own = hash, n.count, of, own
	c.size = uint8(copy(c.text[:], text))
	n.count += One
	s.settle(at)
}

// settle moves a node that is new at its place to where it belongs: down where it took the place
// of the least one, up where it came last.
func (s *Sketch) settle(at int) {
	n := s.heap[at]
	for at > 0 && n.count < s.heap[(at-1)/2].count {
		at = s.put(at, s.heap[(at-1)/2], (at-1)/2)
	}
	s.put(at, n, at)
	s.sink(at)
}

// sink moves a node whose count has grown down to where it belongs.
func (s *Sketch) sink(at int) {
	n := s.heap[at]
	for {
		least := 2*at + 1
		if least >= s.used {
			break
		}
		if right := least + 1; right < s.used && s.heap[right].count < s.heap[least].count {
			least = right
		}
		if n.count <= s.heap[least].count {
			break
		}
		at = s.put(at, s.heap[least], least)
	}
	s.put(at, n, at)
}

// put moves a node to a place, and returns the one that is free then.
func (s *Sketch) put(at int, n node, free int) int {
	s.heap[at] = n
	s.counters[n.counter].at = uint16(at)
	return free
}

// drop takes a key out of the index. Those behind it that were put there because its place was
// taken move up.
func (s *Sketch) drop(hash uint64) {
	place := hash % places
	for s.counters[s.index[place]-1].hash != hash {
		place = (place + 1) % places
	}
	for next := (place + 1) % places; s.index[next] != 0; next = (next + 1) % places {
		if home := s.counters[s.index[next]-1].hash % places; (next-home)%places >= (next-place)%places {
			s.index[place], place = s.index[next], next
		}
	}
	s.index[place] = 0
}

// Decay takes an eighth of all counts away. Called once a second, what comes at a steady r a
// second has a count of 8 r just before it decays.
func (s *Sketch) Decay() {
	for i := range s.heap[:s.used] { // which keeps their order
		n := &s.heap[i]
		n.count = decayed(n.count)
		c := &s.counters[n.counter]
		c.over = min(n.count, (c.over*7+7)/8) // rounded up, so that the bounds hold
	}
}

// decayed is what is left of a count.
func decayed(count uint64) uint64 { return count * 7 / 8 }

// Key is a key and its count. Text is valid until the next change of the sketch.
type Key struct {
	Rule        uint32
	Own         int64
	Text        []byte
	Count, Over uint64
}

// Top appends the keys with the largest counts to dst, the largest first, at most so many.
func (s *Sketch) Top(dst []Key, most int) []Key {
	first := len(dst)
	for i := range s.heap[:s.used] {
		n := &s.heap[i]
		c := &s.counters[n.counter]
		k := Key{c.rule, c.own, c.text[:c.size], n.count, c.over}
		at := len(dst)
		if at-first < most {
			dst = append(dst, k)
		} else if at--; at < first || dst[at].Count >= k.Count {
			continue
		}
		for ; at > first && dst[at-1].Count < k.Count; at-- {
			dst[at] = dst[at-1]
		}
		dst[at] = k
	}
	return dst
}
