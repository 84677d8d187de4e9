package silence

import "github.com/weirlimit/weir/internal/limit"

// Sendings remembers of the calls of one holder when the replies were sent, not exactly, but
// never too late. The zero value has none. It is not safe for concurrent use.
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
