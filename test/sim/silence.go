package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
)

// recordLate is how much later than it was received a reply may be in the record of a region:
// its replicas use that four times a second.
const recordLate = 300 * limit.Millisecond

// counts counts units of a lease that were admitted, in the windows of the aggregator's clock
// that the lease belongs to: those of a static share may touch two.
func (ref *referee) counts(b *book, l uint32, units int64) {
	a, now := b.account, ref.w.now
	h := b.p.link.above.share
	if h == nil || h.parts[leaseID{a.key, l}] == nil {
		a.periods.add(l, units, now)
		ref.checkPeriod(a, l)
		return
	}
	p := h.parts[leaseID{a.key, l}]
	p.spent.units += units
	p.spent.at = now
	for _, period := range p.periods {
		a.periods.add(period, units, now)
		ref.checkPeriod(a, period)
	}
	if most := ref.w.Shares.Share(h.name, a.rule.Spec.Count); inWindows(a.rule.Limit) && p.spent.units > most {
		ref.fail(7, "%v: %s admitted %d in a window in which its share is %d", a.key, h.name, p.spent.units, most)
	}
}

// checkSilence checks that a region takes its share only if no reply was received in the
// time before the moment at, as far as its replicas can have recorded it.
func (ref *referee) checkSilence(h *shareholder, a *account, at, late limit.Micros) {
	if len(h.steps) > 0 && ref.w.now-h.steps[len(h.steps)-1] < limit.Second {
		return // the region reckons with its clock as it was before the step
	}
	for _, reply := range slices.Backward(h.replies) {
		if reply > at-silence.After && reply < at-late {
			ref.fail(7, "%v: %s takes its share, a reply came %d ms before", a.key, h.name, (at-reply)/limit.Millisecond)
			return
		}
	}
}

// shared is what regions may admit of their shares beyond the limit in a window of the
// aggregator's clock. Where the windows of both begin at the same moments it is nothing: a
// share is withheld while it may be taken. Else two windows of a region touch one of the
// aggregator's, which may have withheld the share from neither; and each step of a clock
// begins another one.
func (ref *referee) shared(a *account) (units int64) {
	w, period := ref.w, a.rule.Spec.Period
	for _, h := range w.holders {
		times := int64(0)
		if (h.wrong-(w.counters.step+epochStart-w.Start))%period != 0 {
			times = 2
		}
		for _, at := range h.steps {
			if at > w.now-3*period {
				times++
			}
		}
		units += times * w.Shares.Share(h.name, a.rule.Spec.Count)
	}
	return units
}

// bursts is what regions may admit of the bursts of their shares: one in each silence, and one
// whenever time that did not pass fills the bucket.
func (ref *referee) bursts(a *account) (units int64) {
	for _, h := range ref.w.holders {
		units += int64(h.fills) * ref.w.Shares.Share(h.name, a.rule.Limit.Spec().Burst)
	}
	return units
}
