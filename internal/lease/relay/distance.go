package relay

import (
	"math"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// distance is the state of a cross-region relay, whose granter is in another region. It asks early
// enough that no request waits for a round trip. It asks rarely enough that all replicas of a region together send at
// most ten asks per second. In a regional relay it is the zero value, except rate.
type distance struct {
	// Replicas is the number of replicas of the region that ask for the same keys. The owner of the relay sets it. It is
	// raised to 2 and cut to maxReplicas.
	Replicas uint8
	// trip is the round trip of the last ask.
	trip lease.Millis
	// askAt is when the pause after a partial grant or a denial ends.
	askAt lease.Millis
	// rate is the recent demand in units per second: units admitted, rejected and waiting.
	rate int64
}

const (
	// usageIntervals bounds the want of a cross-region relay for a token bucket: the use in so many lease intervals,
	// or round trips if these are longer. More units would be withheld from other holders without need.
	usageIntervals = 2
	// rateMemory is added to the time since the last ask when a cross-region relay averages its demand. Its children
	// take whole leases, so the demand between two asks is uneven.
	rateMemory lease.Millis = 250
	// idleMemory is how long an idle cross-region relay is kept, because a new one needs a round trip.
	idleMemory lease.Millis = 10_000
	// maxReplicas is the largest number of replicas that together send at most ten asks per second. With more replicas,
	// each would have to pause for longer than its small leases last.
	maxReplicas = 3
)

// measure updates rate with the demand since the last ask.
func (r *Relay) measure(t *lease.Terms, now lease.Millis, waiting int64) {
	a := &r.Holder
	if a.Asked == 0 {
		return
	}
	units := a.Spent + a.Denied + waiting
	since := max(now-a.Asked, t.Interval/4)
	rate := units * 1000 / int64(since)
	switch {
	case t.Aggregator && rate < r.rate && a.Phase != holder.PhaseNone: // children reject requests, and report that later
		rate = (7*r.rate + rate) / 8
	case units == 0:
		rate = r.rate / 2 // down to 0, so that asks for an unused key end
	case t.Aggregator && r.rate > 0 && since < rateMemory:
		rate = (r.rate*int64(rateMemory) + 1000*units + int64(rateMemory+since) - 1) / int64(rateMemory+since)
	case r.rate > 0:
		rate = (r.rate + rate + 1) / 2
	}
	r.rate = rate
}

// during is the expected demand in units.
func (d *distance) during(in lease.Millis) int64 { return (d.rate*int64(in) + 999) / 1000 }

// withMargin adds three standard deviations of a Poisson process to units, because requests do not come evenly.
func withMargin(units int64) int64 { return units + int64(math.Ceil(3*math.Sqrt(float64(units)))) }

// soon is the expected demand during a round trip. It is 0 if the round trip is shorter than a tenth of a lease
// interval, or if less than one request is expected: units kept for it would use up small limits.
func (d *distance) soon(t *lease.Terms) int64 {
	if 10*d.trip < t.Interval || d.rate*int64(d.trip) < 1000 {
		return 0
	}
	return d.during(d.trip)
}

// reserve is how many units are kept for the requests that arrive during a round trip.
func (d *distance) reserve(t *lease.Terms) int64 { return withMargin(d.soon(t)) }

// stock is how many units a cross-region relay should have when an ask is answered. They last for the round trip of
// that ask, a pause, and the round trip of the next one.
func (d *distance) stock(t *lease.Terms) int64 { return withMargin(d.during(2*d.trip + d.Pause(t))) }

// Pause delays an ask that is not urgent: one that gives units back, or follows a partial grant while no request
// waits. Two or three replicas of a region that pause send nearly ten asks per second together. For a token bucket
// the pause is longer, because nearly every grant during a flood is partial.
func (d *distance) Pause(t *lease.Terms) lease.Millis {
	replicas := lease.Millis(min(max(d.Replicas, 2), maxReplicas))
	if t.Refills {
		return (8*replicas - 7) * t.Interval / 4
	}
	return replicas * t.Interval
}

// askAggregator makes the want of a cross-region relay. It also asks for the demand during the round trip, so that
// those requests do not wait.
func (r *Relay) askAggregator(t *lease.Terms, now lease.Millis, need, waiting int64, behind holder.Asks) lease.Want {
	a := &r.Holder
	w := a.Begin(t, now, need, waiting, behind)
	if t.Consistency != lease.Exact {
		w.Want = max(waiting, r.wantOfAggregator(t, now))
		if !t.Trailing {
			w.Soon = r.reserve(t)
			if !t.Refills && r.askAt > a.Asked { // the last grant was partial, and another one brings a pause
				w.Soon = max(w.Soon, r.rate*int64(r.trip+r.Pause(t))/1000) // rounded down, as in soon
			}
			if waiting > 0 { // they last until the ask after this one is answered
				w.Soon *= 2
			}
			w.Want = max(w.Want, waiting+w.Soon)
		}
	}
	return a.Sends(t, now, w)
}

// wantOfAggregator is [holder.State.Want] of a cross-region relay, for which each step of the slow start would take a
// round trip.
func (r *Relay) wantOfAggregator(t *lease.Terms, now lease.Millis) int64 {
	if r.Holder.Asked == 0 {
		return t.WantFloor()
	}
	last := max(holder.UsageIntervals*t.Interval, 4*r.trip)
	if t.Refills {
		last = usageIntervals * max(t.Interval, r.trip)
	}
	least := max(r.reserve(t), 3*r.soon(t))
	if least > 0 {
		least = r.stock(t)
	}
	return r.Holder.Want(t, now, last, least)
}

// heardAggregator takes a reply after the holder has applied it. PhasePartial lasts for the pause and four more round
// trips, so that the next ask is answered before it ends, and no request waits for that ask. If the granted units do
// not last for the pause, the pause is one round trip.
func (r *Relay) heardAggregator(t *lease.Terms, now, sent lease.Millis, w lease.Want, g lease.Grant, jitter lease.Percent) {
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

// prefetchOfAggregator reports whether to ask although no request waits: the units left must last for two round trips.
func (r *Relay) prefetchOfAggregator(t *lease.Terms, now lease.Millis) holder.Asks {
	a := &r.Holder
	ending := r.endsWithoutNext(t, now)
	switch {
	case a.UnderWay(t, now) || r.rate+a.Spent+a.Denied == 0: // unused: otherwise each reply would trigger the next ask
		return holder.NoAsk
	case now < r.askAt && ending && now >= r.aheadAt(t):
		return holder.Ahead
	case now < r.askAt:
		return holder.NoAsk
	}
	available := r.lasting(t, now)
	low := 4*available <= a.Size || available <= r.reserve(t)
	rest := a.Reset - now
	if t.Lead > 0 && rest > 0 && rest <= 2*r.trip { // only one more ask is answered before the window ends
		low = rest > r.trip && available <= withMargin(r.during(rest))
	}
	switch {
	case ending && (rest <= r.trip || !low && available > 5*r.soon(t)/2 || a.Rejects(t, now, 1)):
		return holder.Ahead
	case low, ending:
		return holder.TopUp
	}
	return holder.NoAsk
}

// endsWithoutNext reports whether the window ends soon and no lease of the next window is held.
func (r *Relay) endsWithoutNext(t *lease.Terms, now lease.Millis) bool {
	a := &r.Holder
	return t.Lead > 0 && a.Reset > now && now >= r.leadAt(t) && !r.holdsNext(now)
}

// holdsNext reports a lease on a window that has not begun.
func (r *Relay) holdsNext(now lease.Millis) bool {
	old, young := &r.Holder.Leases[0], &r.Holder.Leases[1]
	return old.Units > 0 && old.From > now || young.Units > 0 && young.From > now
}

// leadAt is when a cross-region relay begins to ask for the next window.
func (r *Relay) leadAt(t *lease.Terms) lease.Millis {
	return r.Holder.Reset - min(t.Lead, 2*(t.Interval+r.trip))
}

// aheadAt is when a cross-region relay asks for the next window although a denial of the running one stands. If that
// ask is denied too, the next one follows half a pause after it was sent.
func (r *Relay) aheadAt(t *lease.Terms) lease.Millis {
	if r.Holder.Phase != holder.PhaseDenied {
		return max(r.leadAt(t), r.askAt)
	}
	return max(r.leadAt(t), r.Holder.Asked+r.Pause(t)/2)
}
