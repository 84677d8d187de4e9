package holder

import "github.com/weirlimit/weir/internal/lease"

// Phase is what a holder of a key may do, by the last reply. The zero value is PhaseFresh.
type Phase uint8

// The phases. The table in doc.go says how a holder moves.
const (
	PhaseFresh   Phase = iota // nothing is known: asks, and requests wait
	PhaseLeased               // units were granted: tops up at a quarter
	PhasePartial              // little is left above: asks after a pause, and refuses what finds no units
	PhaseDenied               // refuses what needs Least or more until Ends
	PhaseFailing              // asks are not decided: on_failure, and a longer pause each time
	phases       = iota
)

// event is what a reply, or its owner, says to a holder.
type event uint8

// The events.
const (
	nothing   event = iota // a report was answered, or nothing was decided on this key
	covered                // a grant that leaves more than little above
	partly                 // a grant of less than was wanted, of the last units, or of none
	denial                 // the need was refused
	cheaper                // a grant to a request that a denial, which stands, does not refuse
	ahead                  // a grant for the next window
	undecided              // unavailable, unknown rule
	forgotten              // another count judges the key, or another version of the rules
	events    = iota
)

// transitions has the phase after an event, by the phase before it.
var transitions = [events][phases]Phase{
	//          PhaseFresh    PhaseLeased   PhasePartial  PhaseDenied   PhaseFailing
	nothing:   {PhaseFresh, PhaseLeased, PhasePartial, PhaseDenied, PhaseFresh},
	covered:   {PhaseLeased, PhaseLeased, PhaseLeased, PhaseLeased, PhaseLeased},
	partly:    {PhasePartial, PhasePartial, PhasePartial, PhasePartial, PhasePartial},
	denial:    {PhaseDenied, PhaseDenied, PhaseDenied, PhaseDenied, PhaseDenied},
	cheaper:   {PhaseLeased, PhaseLeased, PhaseLeased, PhaseDenied, PhaseLeased},
	ahead:     {PhaseLeased, PhaseLeased, PhasePartial, PhaseDenied, PhaseLeased},
	undecided: {PhaseFailing, PhaseFailing, PhaseFailing, PhaseFailing, PhaseFailing},
	forgotten: {PhaseFresh, PhaseFresh, PhaseFresh, PhaseFresh, PhaseFresh},
}

// next is the phase that follows p.
func next(p Phase, e event) Phase { return transitions[e][p] }

// move moves the holder on. A phase that it enters ends at ends, if it is one that ends.
func (a *State) move(e event, ends lease.Millis) {
	before := a.Phase
	a.Phase = next(before, e)
	switch e {
	case partly, denial:
		a.Ends = ends
	case ahead:
		if a.Phase == PhaseDenied { // until the window begins that the grant is for
			a.Ends = ends
		}
	}
	if a.Phase != PhaseDenied && e != undecided && e != nothing && e != ahead {
		a.Least = 0
	}
	if e != undecided && before == PhaseFailing {
		a.Back = Backoff{}
	}
}

// PausedUntil is until when the holder must not ask, though requests may need units: a denial
// stands, or pace is not over since an ask for what trickles back. 0: it may ask.
func (a *State) PausedUntil(t *lease.Terms) lease.Millis {
	switch a.Phase {
	case PhasePartial:
		return a.Asked + t.Pace
	case PhaseDenied:
		return a.Ends
	}
	return 0
}

// Refuses reports whether a request is over the limit by what is known of the tier above, if that tier would
// have to add missing units to what the holder holds. A denial refuses by need. In Partial a request may ask that
// fits into what is left, if that is more than trickles back between two asks. For one lease interval after
// either ends the holder asks behind refused requests if nothing is left, so that none of them waits.
func (a *State) Refuses(t *lease.Terms, now lease.Millis, missing int64) bool {
	until := a.Ends + t.Interval
	if !t.Refills { // it begins anew
		until = min(until, a.Reset)
	}
	denied := a.Phase == PhaseDenied
	if denied && a.RetryAt >= a.Ends { // units come at a known time, but asks for every one of them would be many
		until = min(until, max(a.RetryAt, a.Asked+2*t.Interval))
	}
	switch {
	case missing <= 0: // the units exist, and only have to be given back first
		return false
	case denied && now < a.Ends && missing >= a.Least:
		return true
	case !denied && a.Phase != PhasePartial, now >= until:
		return false
	case t.Far:
		return a.Left < max(missing, t.Ample)
	case denied && now < a.Ends:
		return false
	case now < a.PausedUntil(t):
		return a.Left < max(missing, t.Ample)
	}
	return a.Left == 0
}
