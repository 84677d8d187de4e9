package aggregator

import (
	"encoding/json"
	"fmt"

	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
)

// saved is the silence of a region in a record. Times are µs since 1970 on the system's clock.
type saved struct {
	Region string            `json:"region"`
	At     limit.Micros      `json:"at"`    // when it was saved
	Since  limit.Micros      `json:"since"` // when the present silence begins, if there is no sign before
	Past   [][2]limit.Micros `json:"past,omitempty"`
	// Of a record that aggregators share, see [Store.Share].
	Writer string       `json:"writer,omitempty"`
	From   limit.Micros `json:"from,omitempty"` // nobody knows whether it was silent before
}

// HasNewSign reports whether there was a sign of any region since the last [Store.Save].
func (s *Store) HasNewSign() bool {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	return s.links.newSign
}

// Save calls put with a record for each region that has static shares, of when it was silent.
// The records are for [Store.Load] of the aggregator that starts after this one.
func (s *Store) Save(put func(record []byte)) {
	l, now := &s.links, s.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newSign = false
	ahead := now - l.steady()
	for name, one := range l.known {
		since, past := one.silence.Known()
		r := saved{Region: name, At: now, Since: since + ahead}
		for _, p := range past {
			r.Past = append(r.Past, [2]limit.Micros{p.From + ahead, p.To + ahead})
		}
		record, _ := json.Marshal(r) // a string and numbers: no error
		put(record)
	}
}

// Load goes on for the aggregator that saved a record: a region is silent from when it was by the
// record until it acknowledges a reply of this aggregator. Call it before [Store.SetRegions].
//
// If the clock was set back since, nobody can find out how long there was no sign of the region, and it
// counts as silent for ever before.
func (s *Store) Load(record []byte) error {
	var r saved
	if err := json.Unmarshal(record, &r); err != nil {
		return fmt.Errorf("a record of a region: %w", err)
	}
	l, now := &s.links, s.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	behind := l.steady() - now
	since, past := r.Since+behind, make([]silence.Span, 0, len(r.Past))
	if now < r.At {
		since = 0
	}
	for _, p := range r.Past {
		past = append(past, silence.Span{From: p[0] + behind, To: p[1] + behind})
	}
	l.before[r.Region] = silence.Resume(since, past)
	return nil
}
