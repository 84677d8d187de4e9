package lease

// CallWindow is how many numbers below the latest one a granter distinguishes. A caller whose oldest call in flight is that far
// behind takes another name and counts its next calls from 1 again. So no honest call looks repeated, whatever the order in
// which calls arrive.
const CallWindow = 1024

// Caller is a granter's record of the calls of one caller, so that no repeated call is applied twice. The zero value has no call.
type Caller struct {
	latest uint64                  // highest seq so far
	seen   [CallWindow / 64]uint64 // bit seq mod CallWindow: that call came, if latest-CallWindow < seq <= latest
}

// Accept reports whether seq is new, and records it. A seq that is at least CallWindow below the latest one is not accepted. Seq
// counts from 1.
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

// forget clears the bits of the numbers from the latest one to a new latest one.
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
