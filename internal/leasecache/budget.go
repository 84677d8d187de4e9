package leasecache

import (
	"math/bits"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// asksPerSecond and askBurst bound the asks for a key, whatever is asked of it:
	// in any ten seconds at most 10*asksPerSecond + askBurst = 100, and log2 of the
	// limit more for each of its windows, which is how often halves of what remains
	// are fetched until nothing does. Asks on behalf of a need that fits come on top, see
	// [budget.allow].
	asksPerSecond = 9
	askBurst      = 10
	// kept is the part of the burst that only requests that wait may use: an ask behind
	// the callers has time.
	kept = askBurst / 2
)

// asksIn is after how long the key may be asked for on behalf of a caller that waits. A
// need that fits does not have to wait, see [budget.allow].
func (k key) asksIn(now lease.Millis, need int64) lease.Millis {
	v, pace := &k.Value, k.pace(now)
	if k.fits(now, need) {
		v.budget.allow(now, pace)
		if v.due == waited && v.dueAt > now {
			v.due = none
		}
	}
	if v.due == waited {
		return max(0, v.dueAt-now)
	}
	return v.budget.wait(now, pace, 0)
}

// fits reports whether a need is within what the last reply left in the store and what the
// cache would give back for it.
func (k key) fits(now lease.Millis, need int64) bool {
	account := &k.Value.relay.Account
	left := account.Left
	if now >= account.Reset {
		left = k.Policy.Terms.Capacity
	}
	return need > 0 && need <= left+k.spare(now)
}

// spare is how many units the cache has of the key, beside what is left in the store.
func (k key) spare(now lease.Millis) int64 {
	return k.Value.relay.Account.Held(&k.Policy.Terms, now) + k.Value.relay.Back
}

// budget is what is left of the asks for a key: a bucket of them, as the time at
// which it will be full, in µs of the front's clock. The zero value is full.
type budget struct{ full int64 }

// pace is how fast a budget fills, and how much it holds.
type pace struct {
	gap   int64 // µs for one ask
	burst int64 // asks
}

// pace is how often the key may be asked for. There is no bound while it is exact.
func (k key) pace(now lease.Millis) pace {
	if k.Value.exact.lasts(now) {
		return pace{}
	}
	return paceOf(&k.Policy.Terms, k.Policy.Limit.Spec())
}

// paceOf is the pace of the asks for a counter of a policy. An exact rule has none: a
// request that would be admitted must not wait for others to gather. One ask is made for
// all requests that came during the last round trip. Requests over the limit are refused
// from memory, but for one in a lease interval.
func paceOf(t *lease.Terms, s limit.Spec) pace {
	if t.Consistency == lease.Exact {
		return pace{}
	}
	halvings := int64(bits.Len64(uint64(max(t.Capacity, 1))) - 1)
	perSecond := asksPerSecond * 1000 // thousandths
	if s.Period > 0 {
		perSecond += int(halvings * 1000 * int64(limit.Second) / int64(s.Period))
	}
	return pace{gap: 1000 * int64(limit.Second) / int64(perSecond), burst: askBurst + halvings}
}

// wait is how long, in ms, until an ask may be made that leaves so many for others; 0: now.
func (b *budget) wait(now lease.Millis, p pace, others int64) lease.Millis {
	if p.gap == 0 {
		return 0
	}
	early := b.full - int64(now)*1000 - (p.burst-1-others)*p.gap
	return lease.Millis(max(0, early+999) / 1000)
}

// take uses one ask.
func (b *budget) take(now lease.Millis, p pace) {
	b.full = max(b.full, int64(now)*1000) + p.gap
}

// allow lets one ask be made, whatever was made before, for a need that fits into what is
// left as far as the cache can see. To refuse it would be wrong, and the limit itself
// bounds such asks. If the ask is denied, others have taken what was left, and nothing fits
// before there is more. If it is granted, it brings what is needed, and with it a
// thirty-second of the limit, or half of what is left. So each full use of a limit makes
// some 64 such asks for requests that cost less than a sixty-fourth of it, as many for
// those that cost more, and twice log2 of the limit: on the way up to leases of that size
// and on the way down to the last unit. A lease that lapses makes one. A key that is being
// refused makes none.
func (b *budget) allow(now lease.Millis, p pace) {
	if p.gap > 0 {
		b.full = min(b.full, int64(now)*1000+(p.burst-1)*p.gap)
	}
}

// idle reports a budget that is full, as a new one is.
func (b *budget) idle(now lease.Millis) bool { return b.full <= int64(now)*1000 }
