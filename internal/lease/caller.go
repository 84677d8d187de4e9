package lease

// CallWindow is how many numbers below the latest one a granter still distinguishes. A
// caller whose oldest call in flight is that far behind takes another name and counts its
// next calls from 1 again, so that no order of arrival makes an honest call look repeated.
const CallWindow = 1024

// Caller is what a granter remembers of one caller's calls, so that none is applied
// twice however the network repeats it. The zero value has taken no call.
type Caller struct {
	latest uint64                  // highest seq so far
	seen   [CallWindow / 64]uint64 // bit seq mod CallWindow: that call came, if latest-CallWindow < seq <= latest
}

// Accept reports whether seq is new, and remembers it. A seq CallWindow or more below
// the latest is too old to be checked, and refused. Seq counts from 1.
func (c *Caller) Accept(seq uint64) bool {
	switch {
	case seq > c.latest:
		c.forget(seq)
		c.latest = seq
	case c.latest-seq >= CallWindow, *c.word(seq)>>(seq%64)&1 == 1:
		return false
	}
	*c.word(seq) |= 1 << (seq % 64)
	return true
}

// forget clears the bits of the numbers that a new latest one skips, and its own.
func (c *Caller) forget(latest uint64) {
	if latest-c.latest >= CallWindow {
		clear(c.seen[:])
		return
	}
	for skipped := range latest - c.latest {
		seq := latest - skipped
		*c.word(seq) &^= 1 << (seq % 64)
	}
}

// word is where the bit of a number is.
func (c *Caller) word(seq uint64) *uint64 { return &c.seen[seq%CallWindow/64] }
