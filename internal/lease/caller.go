package lease

// Caller is what a granter remembers of one holder's calls, so that none is
// applied twice however the network repeats it. The zero value has seen nothing.
type Caller struct {
	latest uint64 // highest seq seen
	seen   uint64 // bit i: seq latest-i was seen
}

// Accept reports whether seq is new, and remembers it. A seq more than 63 below
// the latest is too old to tell, and refused. Seq counts from 1.
func (c *Caller) Accept(seq uint64) bool {
	if seq > c.latest {
		shift := seq - c.latest
		if shift < 64 {
			c.seen = c.seen<<shift | 1
		} else {
			c.seen = 1
		}
		c.latest = seq
		return true
	}
	behind := c.latest - seq
	if behind > 63 || c.seen>>behind&1 == 1 {
		return false
	}
	c.seen |= 1 << behind
	return true
}
