package history

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/distinct"
)

const (
	// maxText bounds a text that is read, in bytes.
	maxText = 8 << 20
	// maxRules bounds the rules of a chunk that is read: there are fewer in any set of rules.
	maxRules = 4096
	// keptLonger is for how long a text is kept after its chunk is of no use, for clocks that differ.
	keptLonger = 10 * time.Minute
)

// Text is a part of a history, encoded.
type Text struct {
	ID   string
	Text []byte
	For  time.Duration // for how long it is of use
}

// saved is what a text has: one of these.
type saved struct {
	Holders *holders
	Chunk   *chunk
}

// Changed are the parts that changed since [History.Saved], what holders reported first: if only some are stored, nothing is
// counted twice.
func (h *History) Changed() []Text {
	texts := []Text{encode("holders", saved{Holders: &h.holders}, longestBreak)}
	for _, c := range h.chunks {
		if c.changed {
			texts = append(texts, encode(fmt.Sprintf("%d %d", c.Length, c.Start), saved{Chunk: c}, c.Length+c.track().kept()))
		}
	}
	return texts
}

// Saved notes that all parts are stored.
func (h *History) Saved() {
	for _, c := range h.chunks {
		c.changed = false
	}
}

func encode(id string, part saved, ms int64) Text {
	var text bytes.Buffer
	_ = gob.NewEncoder(&text).Encode(part) // its types have no encoding that fails
	return Text{id, text.Bytes(), time.Duration(ms)*time.Millisecond + keptLonger}
}

// Load returns the history of these texts, in any order. The error says why some are left out.
func Load(texts [][]byte) (*History, error) {
	h := New()
	var wrong []error
	for _, text := range texts {
		part, err := decode(text)
		switch {
		case err != nil:
			wrong = append(wrong[:min(len(wrong), 3)], err)
		case part.Holders != nil:
			h.holders = *part.Holders
		default:
			if i, found := slices.BinarySearchFunc(h.chunks, part.Chunk, order); !found {
				h.chunks = slices.Insert(h.chunks, i, part.Chunk)
			}
		}
	}
	return h, errors.Join(wrong...)
}

// decode reads a text. The maps of what it returns are there.
func decode(text []byte) (part saved, err error) {
	if len(text) > maxText {
		return part, fmt.Errorf("history: a part has %d bytes, at most %d", len(text), maxText)
	}
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&part); err != nil {
		return part, fmt.Errorf("history: %w", err)
	}
	switch {
	case part.Holders != nil && part.Chunk == nil:
		part.Holders.fill()
	case part.Chunk != nil && part.Holders == nil && part.Chunk.legal():
		part.Chunk.fill()
	default:
		return part, errors.New("history: a part is out of its bounds")
	}
	return part, nil
}

// legal reports whether all that was read is within its bounds.
func (c *chunk) legal() bool {
	if c.Length != fine.length && c.Length != coarse.length || c.Start < 0 || c.Start%c.Length != 0 ||
		!slices.Contains(levels, len(c.Known)) || len(c.Rules) > maxRules || max(len(c.Keys), len(c.Denied)) > 2*maxKeys || len(c.Trials) > maxTrials {
		return false
	}
	for _, s := range c.Rules {
		for _, steps := range s {
			if n := len(steps); n > 0 && n != len(c.Known) {
				return false
			}
		}
	}
	for _, registers := range c.Trials {
		if len(registers) != distinct.Registers {
			return false
		}
	}
	return true
}

// fill makes the maps that were empty.
func (c *chunk) fill() {
	some(&c.Rules)
	some(&c.Keys)
	some(&c.Denied)
	some(&c.Trials)
}

func (h *holders) fill() {
	some(&h.By)
	for _, one := range h.By {
		some(&one.Totals)
	}
}

// some makes a map if there is none.
func some[K comparable, V any](m *map[K]V) {
	if *m == nil {
		*m = map[K]V{}
	}
}
