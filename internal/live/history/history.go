// Package history keeps what rules decided in the past: the last hour by 10 s and the last day by minute, and by hour the keys
// that came most and the keys that rules on trial would have rejected.
//
//	history.go chunks of time, and their memory
//	fold.go    reports become counts
//	read.go    counts of a span of time
//	save.go    chunks as texts
//
// Everything is bounded, whatever reports say. If all chunks have more than 16 MiB, the steps become longer. Time is an
// argument: milliseconds since 1970. Nothing in the package is safe for concurrent use.
package history

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/distinct"
)

const (
	second = 1000 // ms
	minute = 60 * second
	hour   = 60 * minute

	// maxBytes bounds the memory of all chunks.
	maxBytes = 16 << 20
	// maxKeys bounds each list of keys of an hour, and maxTrials the rules whose rejected keys it counts.
	maxKeys, maxTrials = 256, 32
)

// kind is what is counted.
type kind int

const (
	admitted kind = iota
	denied
	shadowDenied
	fallback
	shed
	shadowAdmitted
	kinds
)

// track is a resolution.
type track struct {
	length int64 // of a chunk, in ms
	shown  int64 // longest span of time that it is for, in ms
}

// fine has the last hour, and coarse the last day. Each chunk has 60 steps, or fewer if the rules are many.
var (
	fine   = track{10 * minute, hour}
	coarse = track{hour, 24 * hour}
)

// kept is for how long chunks are kept after their end, in ms: a span ends before now, with a whole step.
func (t *track) kept() int64 { return t.shown + t.length }

// levels are how many steps a chunk has. Each divides the one before it.
var levels = []int{60, 30, 15, 5, 1}

// chunk is what happened in its time. Its fields are saved.
type chunk struct {
	Start  int64 // ms, divisible by Length
	Length int64 // ms, that of a track
	Known  []bool
	Rules  map[string]*series

	// In chunks of an hour only:
	Keys, Denied map[Key]Count
	Trials       map[string][]byte // registers of [distinct.Keys], by rule

	changed bool // since it was saved
}

// series is what one rule decided in each step, by kind; nil: nothing.
type series [kinds][]uint32

// Key names a key of a rule.
type Key struct{ Rule, Override, Key string }

// Count is an estimated number of requests, and by how much it is too large at most.
type Count struct{ Requests, Over uint64 }

// History has all chunks. Create it with [New].
type History struct {
	chunks  []*chunk // by track and start
	holders holders
}

// New returns an empty history.
func New() *History { return &History{holders: holders{By: map[string]*holder{}}} }

func (c *chunk) end() int64  { return c.Start + c.Length }
func (c *chunk) step() int64 { return c.Length / int64(len(c.Known)) }

// track is that of a chunk.
func (c *chunk) track() *track {
	if c.Length == fine.length {
		return &fine
	}
	return &coarse
}

// at returns the chunk of a track at a time. It makes one if there is none.
func (h *History) at(t *track, when int64) *chunk {
	c := &chunk{Start: when - when%t.length, Length: t.length}
	i, found := slices.BinarySearchFunc(h.chunks, c, order)
	if !found {
		c.Known = make([]bool, levels[h.level(maxBytes/4)])
		c.Rules, c.Keys, c.Denied, c.Trials = map[string]*series{}, map[Key]Count{}, map[Key]Count{}, map[string][]byte{}
		h.chunks = slices.Insert(h.chunks, i, c)
	}
	return h.chunks[i]
}

func order(a, b *chunk) int {
	return cmp.Or(cmp.Compare(a.Length, b.Length), cmp.Compare(a.Start, b.Start))
}

// add adds counts of a rule that came evenly from one time until another.
func (h *History) add(t *track, from, until int64, rule string, counts *totals) {
	var done totals
	for at := from; at < until; {
		c := h.at(t, at)
		place := (at - c.Start) / c.step()
		at = min(c.Start+(place+1)*c.step(), until)
		for k, n := range counts {
			if part := n*uint64(at-from)/uint64(until-from) - done[k]; part > 0 {
				c.add(rule, kind(k), int(place), part)
				done[k] += part
			}
		}
	}
}

func (c *chunk) add(rule string, k kind, place int, n uint64) {
	s := c.Rules[rule]
	if s == nil {
		s = new(series)
		c.Rules[rule] = s
	}
	if len(s[k]) == 0 {
		s[k] = make([]uint32, len(c.Known))
	}
	s[k][place] = uint32(min(uint64(s[k][place])+n, maxCount))
	c.changed = true
}

// bytes is about how much memory a chunk takes.
func (c *chunk) bytes() (n int) {
	const around = 100 // of an entry of a map
	for rule, s := range c.Rules {
		n += around + len(rule) + int(kinds)*24
		for _, steps := range s {
			n += 4 * len(steps)
		}
	}
	for _, keys := range []map[Key]Count{c.Keys, c.Denied} {
		for k := range keys {
			n += around + len(k.Rule) + len(k.Override) + len(k.Key)
		}
	}
	return n + len(c.Trials)*(around+distinct.Registers)
}

// bytes is about how much memory all chunks take.
func (h *History) bytes() (n int) {
	for _, c := range h.chunks {
		n += c.bytes()
	}
	return n
}

// level is which of the levels the newest chunks have, or the next finer one if all chunks have less than so many bytes.
func (h *History) level(bytes int) (level int) {
	for _, c := range h.chunks {
		level = max(level, slices.Index(levels, len(c.Known)))
	}
	if level > 0 && h.bytes() < bytes {
		level--
	}
	return level
}

// trim forgets chunks that are too old or lie ahead, and makes steps longer until all chunks fit. If that does not suffice, it
// forgets the oldest chunks.
func (h *History) trim(now int64) {
	h.chunks = slices.DeleteFunc(h.chunks, func(c *chunk) bool { return c.end()+c.track().kept() <= now || c.Start > now })
	for level := h.level(0) + 1; level < len(levels) && h.bytes() > maxBytes; level++ {
		for _, c := range h.chunks {
			c.coarsen(levels[level])
		}
	}
	for len(h.chunks) > 0 && h.bytes() > maxBytes {
		oldest := slices.MinFunc(h.chunks, func(a, b *chunk) int { return cmp.Compare(a.end(), b.end()) })
		h.chunks = slices.DeleteFunc(h.chunks, func(c *chunk) bool { return c == oldest })
	}
}

// coarsen leaves a chunk at most so many steps.
func (c *chunk) coarsen(steps int) {
	each := len(c.Known) / steps
	if each <= 1 {
		return
	}
	known := make([]bool, steps)
	for i, is := range c.Known {
		known[i/each] = known[i/each] || is
	}
	for _, s := range c.Rules {
		for k, fine := range s {
			if len(fine) == 0 {
				continue
			}
			s[k] = make([]uint32, steps)
			for i, n := range fine {
				s[k][i/each] = uint32(min(uint64(s[k][i/each])+uint64(n), maxCount))
			}
		}
	}
	c.Known, c.changed = known, true
}
