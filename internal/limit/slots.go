package limit

import "sort"

// Slots is what is kept of one key of a Concurrency limit. The zero value is a
// key of which nothing is held. Like a [State] it is a value whose memory may be
// shared with the value that comes out of a function: the old one must not be
// used after it.
type Slots struct {
	// At is the latest time of a decision.
	At Micros
	// Used is the sum of Units over Held.
	Used int64
	// Next is at or before the first Until in Held: nothing runs out earlier.
	Next Micros
	// Held holds the holdings by ascending ID, each at most once, Units > 0.
	Held []Holding
}

// Holding is what one id holds.
type Holding struct {
	// ID is a 64-bit hash of the name of a holder or a request, never 0. Two that
	// collide share a holding.
	ID    uint64
	Units int64
	Until Micros // when it runs out unless renewed
}

// find returns where the holding of an id is, or would be, and its units.
func (st Slots) find(id uint64) (int, int64) {
	i := sort.Search(len(st.Held), func(i int) bool { return st.Held[i].ID >= id })
	if i < len(st.Held) && st.Held[i].ID == id {
		return i, st.Held[i].Units
	}
	return i, 0
}

// set makes the holding of an id, whose place is i, hold so many units until
// then; 0 units remove it.
func (st Slots) set(i int, id uint64, units int64, until Micros) Slots {
	there := i < len(st.Held) && st.Held[i].ID == id
	switch {
	case there:
		st.Used -= st.Held[i].Units
		if units == 0 {
			st.Held = append(st.Held[:i], st.Held[i+1:]...)
			return st
		}
	case units == 0:
		return st
	default:
		st.Held = append(st.Held, Holding{})
		copy(st.Held[i+1:], st.Held[i:])
	}
	st.Held[i] = Holding{ID: id, Units: units, Until: until}
	st.Used += units
	if len(st.Held) == 1 || until < st.Next {
		st.Next = until
	}
	return st
}

// heldByOthers is what ids other than this one still hold at a time.
func (st Slots) heldByOthers(id uint64, at Micros) int64 {
	var units int64
	for _, h := range st.Held {
		if h.ID != id && h.Until > at {
			units += h.Units
		}
	}
	return units
}
