package holder

import "github.com/weirlimit/weir/internal/lease"

// Phase is what limits a holder of a key, by the last reply that decided. The zero value is [PhaseNone].
type Phase uint8

// The phases. All else follows from the leases, from what is left at the granter ([State.Left]), from when the counter there
// begins anew ([State.Reset]), and from the back-off ([State.Back]).
const (
	PhaseNone    Phase = iota // asks for what it lacks, and requests wait for the answer
	PhasePartial              // next to nothing is left at the granter: until Ends, asks after a pause, and rejects what finds no units
	PhaseDenied               // until Ends, rejects what needs [State.Least] or more
)

// follow moves the holder to the phase that the reply g to want w calls for.
func (a *State) follow(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant) {
	stands := a.Phase == PhaseDenied && now < a.Ends
	little := g.Remaining == 0 || g.Granted < w.Want && g.Remaining < t.Scarce() && t.Consistency != lease.Exact
	switch {
	case g.Status == lease.Denied:
		a.deny(t, now, w, g)
	case g.StartsIn > 0: // for the next window, with which a denial ends
		if a.Phase == PhaseDenied {
			a.Ends = now + 1 + g.StartsIn
		}
	case stands: // it is for larger needs, or another member of the group was denied, and nothing was granted
		if g.Granted > 0 {
			a.Least = g.Remaining + 1
		}
	case little:
		a.Phase, a.Ends, a.Least = PhasePartial, now+t.Interval, 0
	case g.Granted > 0:
		a.Phase, a.Least = PhaseNone, 0
	}
}

// deny takes the denial g of want w. It ends with the window. What is left at the granter may still be asked for.
func (a *State) deny(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant) {
	ends := now + g.AskAfter
	if a.Phase == PhaseDenied && t.Consistency == lease.Exact { // that of a probe, which claimed an interval
		ends = max(ends, a.Ends)
	}
	if a.Reset > now {
		ends = min(ends, a.Reset)
	}
	a.Phase, a.Ends, a.Least = PhaseDenied, ends, g.Remaining+1
	if w.Need > 0 {
		a.Least = min(a.Least, w.Need)
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

// Rejects reports whether a request is over the limit by what is known of the granter, if the granter would
// have to add missing units to what the holder holds. A denial rejects by need. In Partial a request may ask that
// fits into what is left, if that is more than trickles back between two asks. For one lease interval after
// either ends the holder asks behind rejected requests if nothing is left, so that none of them waits.
func (a *State) Rejects(t *lease.Terms, now lease.Millis, missing int64) bool {
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
	case t.Aggregator:
		return a.Left < max(missing, t.Ample)
	case denied && now < a.Ends:
		return false
	case denied && missing >= a.Least && a.UnderWay(t, now): // one worker asks for all
		return true
	case now < a.PausedUntil(t):
		return a.Left < max(missing, t.Ample)
	}
	return a.Left == 0
}
