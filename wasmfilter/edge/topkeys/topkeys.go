// Package topkeys finds the most frequent keys in a stream of requests, in bounded memory: the space saving sketch of Metwally,
// Agrawal and El Abbadi (2005), with counts that decay.
//
// A [Sketch] has a counter for each of [counters] keys. A key without a counter takes the counter of the key with the smallest
// count and continues from there. Its count is too large by at most the count that it took over. So for every key
//
//	count - over <= true count <= count
//
// and a key without a counter came at most as often as the smallest count. The true count decays as the counts do.
//
// The package is pure. Nothing in it is safe for concurrent use.
package topkeys

import "github.com/weirlimit/weir/internal/rule"

const (
	// counters is how many keys a sketch counts.
	counters = 512
	// One is a request that has just come, in counts: they are thousandths of one.
	One    = 1000
	places = 4 * counters // of the index; a power of two
)

// Sketch counts keys. Create it with [New]; it has 75 kB and allocates nothing more.
type Sketch struct {
	heap     [counters]node // the first one has the least count, which is 0 at first
	counters [counters]counter
	index    [places]uint16 // by hash: the counter's number plus 1; 0: free
}

// node is a place in the heap.
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
func New() *Sketch {
	s := new(Sketch)
	for i := range s.heap {
		s.put(i, node{counter: uint16(i)})
	}
	return s
}

// Add counts one request. hash names the key, with all that tells its counter from others:
// two with one hash are one key. It must be one that nobody can choose. of, its rule, and text, at most
// [rule.MaxKey] bytes, are kept with it as they were first, and own, its limit, as it was last.
func (s *Sketch) Add(hash uint64, of uint32, own int64, text []byte) {
	place := hash % places
	for ; s.index[place] != 0; place = (place + 1) % places {
		if c := &s.counters[s.index[place]-1]; c.hash == hash {
			c.count(s, own)
			return
		}
	}
	least := s.heap[0]
	s.drop(least.counter)
	for place = hash % places; s.index[place] != 0; place = (place + 1) % places {
	}
	s.index[place] = least.counter + 1
	c := &s.counters[least.counter]
	c.hash, c.over, c.rule, c.size = hash, least.count, of, uint8(copy(c.text[:], text))
	c.count(s, own)
}

// count counts one request.
func (c *counter) count(s *Sketch, own int64) {
	c.own = own
	s.heap[c.at].count += One
	s.sink(int(c.at))
}

// sink moves a node whose count has grown down to where it belongs.
func (s *Sketch) sink(at int) {
	n := s.heap[at]
	for {
		least := 2*at + 1
		if right := least + 1; right < counters && s.heap[right].count < s.heap[least].count {
			least = right
		}
		if least >= counters || n.count <= s.heap[least].count {
			break
		}
		s.put(at, s.heap[least])
		at = least
	}
	s.put(at, n)
}

// put moves a node to a place.
func (s *Sketch) put(at int, n node) {
	s.heap[at] = n
	s.counters[n.counter].at = uint16(at)
}

// drop takes a counter out of the index, if it is there. Those behind it that were put there because its
// place was taken move up.
func (s *Sketch) drop(number uint16) {
	place := s.counters[number].hash % places
	for ; s.index[place] != number+1; place = (place + 1) % places {
		if s.index[place] == 0 {
			return // nobody used it
		}
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
	for i := range s.heap { // which keeps their order
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

// Top appends the keys that have a count to dst, those that come most first.
func (s *Sketch) Top(dst []Key) []Key {
	for i := len(s.heap) - 1; i >= 0; i-- { // nearly in order
		n := &s.heap[i]
		if n.count == 0 {
			continue
		}
		c := &s.counters[n.counter]
		dst = append(dst, Key{c.rule, c.own, c.text[:c.size], n.count, c.over})
		for at := len(dst) - 1; at > 0 && dst[at-1].Count < dst[at].Count; at-- {
			dst[at-1], dst[at] = dst[at], dst[at-1]
		}
	}
	return dst
}
