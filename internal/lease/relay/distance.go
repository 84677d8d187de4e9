package relay

import (
	"math"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// distance is what a relay knows of a tier above that is in another region, and the policy that it follows because
// of that: it asks early enough that no request waits for the way there and back, and seldom enough that the replicas
// of a region stay within ten asks a second together. A holder whose tier above is near has no distance.
type distance struct {
	// Replicas is how many replicas of a region ask for the same keys. The owner of the relay sets it.
	// Less than 2 counts as 2, more than maxReplicas as so many.
	Replicas uint8
	// trip is how long the last ask was on its way, there and back.
	trip lease.Millis
	// askAt is the end of the pause after an ask that got less than it wanted, or of a denial.
	askAt lease.Millis
	// rate is the demand lately, in units per second: those admitted, refused and waiting.
	rate int64
}

const (
	// farUsageIntervals is over how many lease intervals, or trips if these are longer, a far relay looks back at its
	// use of a token bucket. It asks ahead of a trip, so what it holds beyond that is kept from others for nothing.
	farUsageIntervals = 2
	// rateMemory is over how long, beside the time since the last ask, a far relay averages its use if it asks
	// more often than that: its children take units by the lease.
	rateMemory lease.Millis = 250
	// farMemory is how long a relay that asks far above is kept: to begin anew takes a trip.
	farMemory lease.Millis = 10_000
	// maxReplicas is how many replicas of a region ask together at most ten times a second. Beside more of
	// them each would have to pause for longer than its leases of a small part last.
	maxReplicas = 3
)

// measure notes the demand since the last ask.
func (r *Relay) measure(t *lease.Terms, now lease.Millis, waiting int64) {
	a := &r.Holder
	if a.Asked == 0 {
		return
	}
	units := a.Spent + a.Denied + waiting
	since := max(now-a.Asked, t.Interval/4)
	rate := units * 1000 / int64(since)
	switch {
	case t.Far && rate < r.rate && a.Phase != holder.PhaseNone: // children refuse, and report it later
		rate = (7*r.rate + rate) / 8
	case units == 0:
		rate = r.rate / 2 // to 0: a key that is not in use must not be asked for again and again
	case t.Far && r.rate > 0 && since < rateMemory:
		rate = (r.rate*int64(rateMemory) + 1000*units + int64(rateMemory+since) - 1) / int64(rateMemory+since)
	case r.rate > 0:
		rate = (r.rate + rate + 1) / 2
	}
	r.rate = rate
}

// during is how many units requests will need in so long.
func (d *distance) during(in lease.Millis) int64 { return (d.rate*int64(in) + 999) / 1000 }

// withMargin adds three standard deviations of a Poisson process to units, because requests do not come evenly.
func withMargin(units int64) int64 { return units + int64(math.Ceil(3*math.Sqrt(float64(units)))) }

// soon is how many units requests will need while an ask is on its way. Where that takes less
// than a tenth of a lease interval it does not matter; nor where no request is expected,
// because what is kept for none is missing elsewhere: small limits would be used up by it.
func (d *distance) soon(t *lease.Terms) int64 {
	if 10*d.trip < t.Interval || d.rate*int64(d.trip) < 1000 {
		return 0
	}
	return d.during(d.trip)
}

// reserve is how many units are kept for the requests that come while an ask is on its way.
func (d *distance) reserve(t *lease.Terms) int64 { return withMargin(d.soon(t)) }

// stock is how many units a far relay should have when an ask is answered: the next one may
// have to pause, and then be on its way, while requests for these come.
func (d *distance) stock(t *lease.Terms) int64 { return withMargin(d.during(2*d.trip + d.Pause(t))) }

// Pause is how long a far relay waits with an ask that is not urgent: one that gives back, or
// follows a grant of less than was wanted while no request waits. Two or three replicas of a region ask
// nearly ten times a second together with it. Of a token bucket nearly every grant of a flood is such a part.
func (d *distance) Pause(t *lease.Terms) lease.Millis {
	replicas := lease.Millis(min(max(d.Replicas, 2), maxReplicas))
	if t.Refills {
		return (8*replicas - 7) * t.Interval / 4
	}
	return replicas * t.Interval
}

// askFar makes the want for a tier that is far above. Beside what waits it asks for what requests will need while the
// ask is on its way: these would have to wait.
func (r *Relay) askFar(t *lease.Terms, now lease.Millis, need, waiting int64, behind holder.Asks) lease.Want {
	a := &r.Holder
	w := a.Begin(t, now, need, waiting, behind)
	if t.Consistency != lease.Exact {
		w.Want = max(waiting, r.wantFar(t, now))
		if !t.Trailing {
			w.Soon = r.reserve(t)
			if !t.Refills && r.askAt > a.Asked { // it got a part, and will pause after another
				w.Soon = max(w.Soon, r.rate*int64(r.trip+r.Pause(t))/1000) // rounded down, as in soon
			}
			if waiting > 0 { // the next ask has to be answered, too, before these are spent
				w.Soon *= 2
			}
			w.Want = max(w.Want, waiting+w.Soon)
		}
	}
	return a.Sends(t, now, w)
}

// wantFar is [holder.State.want] far below: the slow start would take as many ways there and back.
func (r *Relay) wantFar(t *lease.Terms, now lease.Millis) int64 {
	if r.Holder.Asked == 0 {
		return t.WantFloor()
	}
	last := max(holder.UsageIntervals*t.Interval, 4*r.trip)
	if t.Refills {
		last = farUsageIntervals * max(t.Interval, r.trip)
	}
	least := max(r.reserve(t), 3*r.soon(t))
	if least > 0 {
		least = r.stock(t)
	}
	return r.Holder.Want(t, now, last, least)
}

// heardFar takes the reply that the holder has taken. Partial lasts for the pause and four trips more, so that the
// next ask is answered in it, and no request waits for that one. The pause itself is over after a trip if requests
// will wait for the next ask soon.
func (r *Relay) heardFar(t *lease.Terms, now, sent lease.Millis, w lease.Want, g lease.Grant, jitter lease.Percent) {
	a := &r.Holder
	if w.Want == 0 || g.Status != lease.OK && g.Status != lease.Denied {
		return
	}
	r.trip = now - sent
	switch {
	case a.Phase == holder.PhaseDenied && (g.Status == lease.Denied || g.StartsIn > 0):
		r.askAt = max(r.askAt, a.Ends)
		if g.StartsIn > 0 {
			r.askAt = a.Ends
		}
	case a.Phase != holder.PhaseDenied && g.Granted > 0 && g.StartsIn == 0:
		r.askAt = 0
	}
	if g.StartsIn > 0 || t.Consistency == lease.Exact {
		return
	}
	if g.Granted < w.Want {
		pause := jitter.Of(r.Pause(t))
		if !t.Refills && g.Granted < r.during(pause) && g.Remaining >= t.Scarce() {
			pause = r.trip
		}
		r.askAt = max(r.askAt, sent+pause)
	}
	if g.Remaining == 0 || g.Granted < w.Want && g.Remaining < t.Scarce() {
		long := max(2*t.Interval, r.Pause(t)) + 4*min(r.trip, lease.LongestTrip)
		ends := now + long - t.Interval
		if !t.Refills {
			ends = min(ends, a.Reset)
		}
		a.Ends = max(a.Ends, ends)
	}
}

// prefetchFar reports whether to ask although no request waits: the units left must last for two round trips.
func (r *Relay) prefetchFar(t *lease.Terms, now lease.Millis) holder.Asks {
	a := &r.Holder
	ending := r.endingFar(t, now)
	switch {
	case a.UnderWay(t, now) || r.rate+a.Spent+a.Denied == 0: // not in use: each reply would bring the next ask
		return holder.NoAsk
	case now < r.askAt && ending && now >= r.aheadAt(t):
		return holder.Ahead
	case now < r.askAt:
		return holder.NoAsk
	}
	available := r.lasting(t, now)
	low := 4*available <= a.Size || available <= r.reserve(t)
	rest := a.Reset - now
	if t.Lead > 0 && rest > 0 && rest <= 2*r.trip { // no second ask is answered before the flip
		low = rest > r.trip && available <= withMargin(r.during(rest))
	}
	switch {
	case ending && (rest <= r.trip || !low && available > 5*r.soon(t)/2 || a.Refuses(t, now, 1)):
		return holder.Ahead
	case low, ending:
		return holder.TopUp
	}
	return holder.NoAsk
}

// endingFar reports whether the window ends soon and none of the next is held. A far relay makes room for one.
func (r *Relay) endingFar(t *lease.Terms, now lease.Millis) bool {
	a := &r.Holder
	return t.Lead > 0 && a.Reset > now && now >= r.leadAt(t) && !r.holdsNext(now)
}

// holdsNext reports a lease on a window that has not begun.
func (r *Relay) holdsNext(now lease.Millis) bool {
	old, young := &r.Holder.Leases[0], &r.Holder.Leases[1]
	return old.Units > 0 && old.From > now || young.Units > 0 && young.From > now
}

// leadAt is from when the next window is asked for.
func (r *Relay) leadAt(t *lease.Terms) lease.Millis {
	return r.Holder.Reset - min(t.Lead, 2*(t.Interval+r.trip))
}

// aheadAt is from when a far relay asks for the next window, though it pauses with others: what
// denied it is over then. If that ask is denied too, the next is sent when it is answered and half a
// pause is over.
func (r *Relay) aheadAt(t *lease.Terms) lease.Millis {
	if r.Holder.Phase != holder.PhaseDenied {
		return max(r.leadAt(t), r.askAt)
	}
	return max(r.leadAt(t), r.Holder.Asked+r.Pause(t)/2)
}

// AskAlong decides what to ask for when a report is due. Where the tier above is
// far, the next ask would have to wait for its reply.
func (r *Relay) AskAlong(t *lease.Terms, now lease.Millis) holder.Asks {
	switch {
	case !t.Far || t.Consistency == lease.Exact || r.Holder.Spent == 0 || now < r.askAt:
		return holder.NoAsk
	case r.endingFar(t, now):
		return holder.Ahead
	case r.lasting(t, now) <= r.stock(t):
		return holder.TopUp
	}
	return holder.NoAsk
}
