package lease

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

// SilentAfter is how long after the last sign of a region it counts as silent. Twice the
// heartbeat of a region, the way there and back and a second of lateness fit into it.
const SilentAfter = 3 * limit.Second

// Silence is when one region was silent, by one side of its link to the aggregator. Both
// sides keep one, and the region's silence is part of the aggregator's:
//
//   - For the region a reply is a sign when it arrives, at R. It is silent from R + SilentAfter
//     until the next reply, as far as it is sure that none was received.
//   - The aggregator has a sign when the region acknowledges a reply. That counts for the
//     moment T before the reply was sent, and the silence before it ended only when the
//     acknowledgement arrived, at A. So it is silent from T + SilentAfter until A.
//
// T is before R, and A after the receipt of the acknowledged reply. So whoever grants by the
// aggregator's silence withholds at least what is taken by the region's, however long messages
// take and whichever of them are lost.
//
// Times are of one steady clock. Use [NewSilence]. It is not safe for concurrent use.
type Silence struct {
	sign limit.Micros // the moment of the newest sign
	open limit.Micros // when the present silence begins, if there is no sign before
	past []Span       // silences that have ended, oldest first; at most mostSilences
	wide bool
}

// Span is the time from From until To, without To itself.
type Span struct{ From, To limit.Micros }

// mostSilences is how many ended silences are remembered.
const mostSilences = 16

// NewSilence is that of a region of which the newest sign is at a time. Where too many
// silences have ended to remember them, the two oldest become one if it is wide, else the
// oldest is forgotten: the aggregator's is wide, that of a region is not.
func NewSilence(sign limit.Micros, wide bool) Silence {
	return Silence{sign: sign, open: sign + SilentAfter, wide: wide}
}

// ResumeSilence is the wide silence of an aggregator that goes on for one before it: since and
// past are what [Silence.Known] returned there, at any time. What signs the one before had later
// is not known, so the silence is longer here.
func ResumeSilence(since limit.Micros, past []Span) Silence {
	s := Silence{sign: since - SilentAfter, open: since, wide: true}
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
	open := at + SilentAfter
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
	if len(s.past) == mostSilences {
		first := s.past[0].From
		s.past = append(s.past[:0], s.past[1:]...)
		if s.wide {
			s.past[0].From = first
		}
	}
	s.past = append(s.past, one)
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

// Sendings remembers of the calls of one holder when the replies were sent, not exactly, but
// never too late. The zero value has seen none. It is not safe for concurrent use.
type Sendings struct {
	samples [32]sending // a ring
	count   uint64      // of samples so far
	newest  uint64      // the largest number of a call
	arrived [16]uint64  // which of the last calls have arrived here: a ring of bits
}

// sending is when a call was answered, at the earliest.
type sending struct {
	seq uint64
	at  limit.Micros
}

// sampleEvery is the least time between two samples.
const sampleEvery = 100 * limit.Millisecond

// Note notes a call with its number, 1 or more, when it arrives: its reply is sent after now.
func (s *Sendings) Note(seq uint64, now limit.Micros) {
	if seq <= s.newest { // an older or repeated call
		if word, bit := s.bit(seq); s.newest-seq < s.calls() {
			*word |= bit
		}
		return
	}
	for n := max(s.newest+1, seq-min(seq, s.calls()-1)); n < seq; n++ {
		word, bit := s.bit(n)
		*word &^= bit
	}
	word, bit := s.bit(seq)
	*word |= bit
	s.newest = seq
	if s.count > 0 && now-s.samples[(s.count-1)%uint64(len(s.samples))].at < sampleEvery {
		return
	}
	s.samples[s.count%uint64(len(s.samples))] = sending{seq, now}
	s.count++
}

// Before is a time before which the reply to a call was not sent; false: none is known, as
// of a call that has not arrived here, since another granter has answered it. A call with a
// larger number than all before arrives after those, so the samples of smaller numbers count
// as well.
func (s *Sendings) Before(seq uint64) (limit.Micros, bool) {
	if seq > s.newest || s.newest-seq >= s.calls() {
		return 0, false
	}
	if word, bit := s.bit(seq); *word&bit == 0 {
		return 0, false
	}
	n := uint64(len(s.samples))
	for i := s.count; i > 0 && i+n > s.count; i-- {
		if one := s.samples[(i-1)%n]; one.seq <= seq {
			return one.at, true
		}
	}
	return 0, false
}

// calls is of how many calls it is known whether they have arrived, and bit where of one of them.
func (s *Sendings) calls() uint64 { return 64 * uint64(len(s.arrived)) }

func (s *Sendings) bit(seq uint64) (word *uint64, bit uint64) {
	return &s.arrived[seq/64%uint64(len(s.arrived))], 1 << (seq % 64)
}
