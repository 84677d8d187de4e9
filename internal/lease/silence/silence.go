// Package silence computes when a region was silent, for each of the two sides of its link to the
// aggregator. The aggregator withholds the region's share at least for as long as the region takes it.
package silence

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

// After is how long after the last sign of a region it counts as silent. Twice the
// heartbeat of a region, the way there and back and a second of lateness fit into it.
const After = 3 * limit.Second

// Silence is when one region was silent, by one side of its link to the aggregator. Both
// sides keep one, and the region's silence is part of the aggregator's:
//
//   - For the region a reply is a sign when it arrives, at R. It is silent from R + After
//     until the next reply, as far as it is sure that none was received.
//   - The aggregator has a sign when the region acknowledges a reply. That counts for the
//     moment T before the reply was sent, and the silence before it ended only when the
//     acknowledgement arrived, at A. So it is silent from T + After until A.
//
// T is before R, and A after the receipt of the acknowledged reply. So whoever grants by the
// aggregator's silence withholds at least what is taken by the region's, however long messages
// take and whichever of them are lost.
//
// Times are of one steady clock. Use [New]. It is not safe for concurrent use.
type Silence struct {
	sign limit.Micros // the moment of the newest sign
	open limit.Micros // when the present silence begins, if there is no sign before
	past []Span       // silences that have ended, oldest first; at most mostSilences
	wide bool
}

// Span is the time from From until To, without To itself.
type Span struct{ From, To limit.Micros }

// mostSilences is how many ended silences are remembered.
const mostSilences = 64

// New is that of a region of which the newest sign is at a time. Where too many
// silences have ended to remember them, the two become one between which least time lies if it is
// wide, else the oldest is forgotten: the aggregator's is wide, that of a region is not.
func New(sign limit.Micros, wide bool) Silence {
	return Silence{sign: sign, open: sign + After, wide: wide}
}

// Resume is the wide silence of an aggregator that goes on for one before it: since and
// past are what [Silence.Known] returned there, at any time. What signs the one before had later
// is not known, so the silence is longer here.
func Resume(since limit.Micros, past []Span) Silence {
	s := Silence{sign: since - After, open: since, wide: true}
	for _, one := range past {
		s.remember(one)
	}
	return s
}

// Known is when the present silence begins, if there is no sign before, and a copy of the
// silences that have ended, oldest first.
func (s *Silence) Known() (since limit.Micros, past []Span) { return s.open, slices.Clone(s.past) }

// NoteSign notes a sign of the region that counts for the moment at. If the region was silent
// before, it was so until the moment until. Signs that are older than the newest one change
// nothing.
func (s *Silence) NoteSign(at, until limit.Micros) {
	if at <= s.sign {
		return
	}
	s.sign = at
	open := at + After
	if until > s.open {
		if open <= until { // the sign itself is too old to end the silence
			return
		}
		s.remember(Span{s.open, until})
	}
	s.open = open
}

// remember adds a silence that has ended.
func (s *Silence) remember(one Span) {
	s.past = append(s.past, one)
	if len(s.past) <= mostSilences {
		return
	}
	at := 0
	if s.wide {
		at = s.closest()
		two := &s.past[at+1]
		two.From, two.To = min(s.past[at].From, two.From), max(s.past[at].To, two.To)
	}
	s.past = slices.Delete(s.past, at, at+1)
}

// And is when a region was silent by both of two wide silences. Each of them contains the region's own, so
// what both have does, too.
func And(a, b Silence) Silence {
	both := Silence{sign: max(a.sign, b.sign), open: max(a.open, b.open), wide: true}
	var spans []Span
	for _, x := range append(slices.Clone(a.past), Span{a.open, limit.Never}) {
		for _, y := range append(slices.Clone(b.past), Span{b.open, limit.Never}) {
			if one := (Span{max(x.From, y.From), min(x.To, y.To)}); one.From < one.To && one.To < limit.Never {
				spans = append(spans, one)
			}
		}
	}
	slices.SortFunc(spans, func(x, y Span) int { return cmp.Compare(x.From, y.From) })
	for _, one := range spans {
		both.remember(one)
	}
	return both
}

// closest is the silence after which the next one began soonest.
func (s *Silence) closest() (at int) {
	least := limit.Never
	for i := range len(s.past) - 1 {
		if between := s.past[i+1].From - s.past[i].To; between < least {
			at, least = i, between
		}
	}
	return at
}

// Covers reports whether the region is silent at a time, by what is known: for a time to
// come, if there is no sign until then.
func (s *Silence) Covers(t limit.Micros) bool {
	if t >= s.open {
		return true
	}
	for i := len(s.past) - 1; i >= 0; i-- {
		if one := s.past[i]; one.From <= t && t < one.To {
			return true
		}
	}
	return false
}

// Lately reports whether the region is silent now, or was at any time after since.
func (s *Silence) Lately(since, now limit.Micros) bool {
	return now >= s.open || len(s.past) > 0 && s.past[len(s.past)-1].To > since
}

// LastSign is the moment of the newest sign.
func (s *Silence) LastSign() limit.Micros { return s.sign }
