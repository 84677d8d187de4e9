// Package history keeps what rules decided in the past: the last hour by 10 s and the last day by minute, and by hour the keys
// that came most and the keys that rules on trial would have rejected.
//
//	history.go hours, their memory, and their saved form
//	fold.go    reports become counts
//	read.go    counts of a span of time
//
// Everything is bounded, whatever reports say. If all hours have more than 16 MiB, the steps become longer. Time is an
// argument: milliseconds since 1970. Nothing in the package is safe for concurrent use.
package history

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/distinct"
)

const (
	second = 1000 // ms
	minute = 60 * second
	length = 60 * minute // of an hour
	day    = 24 * length
	slack  = 5 * minute // for what is read of an hour beyond its end, see [History.Steps]

	// maxBytes bounds the memory of all hours.
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

// levels are how many steps an hour has: at first steps of 10 s, and once it is no part of the last hour steps of a minute, or longer
// ones if the rules are many. Each divides the one before it.
var levels = []int{360, 180, 60, 30, 15, 5, 1}

// hour is what happened in an hour. Its fields are saved.
type hour struct {
	Start        int64  // ms, divisible by [length]
	Known        []bool // by step
	Rules        map[string]*series
	Keys, Denied map[Key]Count
	Trials       map[string][]byte // registers of [distinct.Keys], by rule
	Holders      holders           // as they were when the hour was saved, in the newest one only

	changed bool // since it was saved
}

// series is what one rule decided in each step, by kind; nil: nothing.
type series [kinds][]uint32

// Key names a key of a rule.
type Key struct{ Rule, Override, Key string }

// Count is an estimated number of requests, and by how much it is too large at most.
type Count struct{ Requests, Over uint64 }

// History has all hours. Create it with [New].
type History struct {
	hours   []*hour // by start
	holders holders
}

// New returns an empty history.
func New() *History { return &History{holders: holders{By: map[string]*holder{}}} }

func newHour(start int64) *hour {
	return &hour{
		Start: start, Known: make([]bool, levels[0]),
		Rules: map[string]*series{}, Keys: map[Key]Count{}, Denied: map[Key]Count{}, Trials: map[string][]byte{},
	}
}

func (o *hour) end() int64           { return o.Start + length }
func (o *hour) step() int64          { return length / int64(len(o.Known)) }
func (o *hour) at(place int) int64   { return o.Start + int64(place)*o.step() }
func (o *hour) place(when int64) int { return int((when - o.Start) / o.step()) }

// find is the place of the hour with a time.
func (h *History) find(when int64) (i int, found bool) {
	return slices.BinarySearchFunc(h.hours, when-when%length, func(o *hour, start int64) int { return cmp.Compare(o.Start, start) })
}

// hour returns the hour with a time, and the step. It makes one if there is none. The caller changes it.
func (h *History) hour(when int64) (o *hour, place int) {
	i, found := h.find(when)
	if !found {
		h.hours = slices.Insert(h.hours, i, newHour(when-when%length))
	}
	o = h.hours[i]
	o.changed = true
	return o, o.place(when)
}

// add adds counts of a rule that came evenly from one time until another.
func (h *History) add(from, until int64, rule string, counts *totals) {
	for at := from; at < until; {
		o, place := h.hour(at)
		next := min(o.at(place+1), until)
		for k, n := range counts {
			if n > 0 {
				o.add(rule, kind(k), place, n*uint64(next-from)/uint64(until-from)-n*uint64(at-from)/uint64(until-from))
			}
		}
		at = next
	}
}

func (o *hour) add(rule string, k kind, place int, n uint64) {
	s := o.Rules[rule]
	if s == nil {
		s = new(series)
		o.Rules[rule] = s
	}
	if len(s[k]) == 0 {
		s[k] = make([]uint32, len(o.Known))
	}
	s[k][place] = uint32(min(uint64(s[k][place])+n, maxCount))
}

// bytes is about how much memory all hours take.
func (h *History) bytes() (n int) {
	const around = 100 // of an entry of a map
	for _, o := range h.hours {
		for rule, s := range o.Rules {
			n += around + len(rule) + int(kinds)*24
			for _, steps := range s {
				n += 4 * len(steps)
			}
		}
		for _, keys := range []map[Key]Count{o.Keys, o.Denied} {
			for k := range keys {
				n += around + len(k.Rule) + len(k.Override) + len(k.Key)
			}
		}
		n += len(o.Trials) * (around + distinct.Registers)
	}
	return n
}

// trim forgets hours that are too old or lie ahead, and makes steps longer until all hours fit. If that does not suffice, it
// forgets the oldest hours.
func (h *History) trim(now int64) {
	h.hours = slices.DeleteFunc(h.hours, func(o *hour) bool { return o.end()+day+length <= now || o.Start > now })
	for _, o := range h.hours {
		trimKeys(o.Keys, 2*maxKeys)
		trimKeys(o.Denied, 2*maxKeys)
		if o.end()+length+2*slack <= now {
			o.coarsen(length / minute)
		}
	}
	for level := 1; level < len(levels) && h.bytes() > maxBytes; level++ {
		for _, o := range h.hours {
			o.coarsen(levels[level])
		}
	}
	for len(h.hours) > 0 && h.bytes() > maxBytes {
		h.hours = slices.Delete(h.hours, 0, 1)
	}
}

// coarsen leaves an hour at most so many steps.
func (o *hour) coarsen(steps int) {
	each := len(o.Known) / steps
	if each <= 1 {
		return
	}
	fine := *o
	o.Known, o.Rules, o.changed = make([]bool, steps), make(map[string]*series, len(fine.Rules)), true
	for i, known := range fine.Known {
		o.Known[i/each] = o.Known[i/each] || known
	}
	for rule, s := range fine.Rules {
		for k := range s {
			for i, n := range s[k] {
				o.add(rule, kind(k), i/each, uint64(n))
			}
		}
	}
}

// Changed returns the hours that changed since the last call, encoded, by their names.
func (h *History) Changed() map[string][]byte {
	parts := map[string][]byte{}
	for i, o := range h.hours {
		o.Holders = holders{}
		if i == len(h.hours)-1 {
			o.Holders = h.holders
		}
		if o.changed {
			var text bytes.Buffer
			_ = gob.NewEncoder(&text).Encode(o) // its types have no encoding that fails
			parts[strconv.FormatInt(o.Start, 10)] = text.Bytes()
		}
		o.changed = false
	}
	return parts
}

// Load returns the history of these texts, in any order. The error says why some are left out.
func Load(texts [][]byte) (*History, error) {
	h := New()
	var wrong []error
	for _, text := range texts {
		o := newHour(0)
		err := gob.NewDecoder(bytes.NewReader(text)).Decode(o)
		if err == nil && !o.legal() {
			err = errors.New("an hour is out of its bounds")
		}
		if err != nil {
			wrong = append(wrong[:min(len(wrong), 3)], fmt.Errorf("history: %w", err))
		} else if i, found := h.find(o.Start); !found {
			h.hours = slices.Insert(h.hours, i, o)
		}
	}
	if n := len(h.hours); n > 0 && h.hours[n-1].Holders.By != nil {
		h.holders = h.hours[n-1].Holders
	}
	return h, errors.Join(wrong...)
}

// legal reports whether what was read can be used.
func (o *hour) legal() bool {
	for _, s := range o.Rules {
		for _, steps := range s {
			if n := len(steps); n > 0 && n != len(o.Known) {
				return false
			}
		}
	}
	for _, one := range o.Holders.By {
		if one.Totals == nil {
			return false
		}
	}
	return o.Start >= 0 && o.Start%length == 0 && slices.Contains(levels, len(o.Known))
}
