package front

import (
	"math/bits"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// asksPerSecond and askBurst bound the asks for a key, whatever is asked of it:
	// in any ten seconds at most 10*asksPerSecond + askBurst = 100, and log2 of the
	// limit more for each of its windows, which is how often halves of what remains
	// are fetched until nothing does. Asks for who fits come on top, see [budget.allow].
	asksPerSecond = 9
	askBurst      = 10
	// kept is the part of the burst that only requests that wait may use: who asks
	// behind has time.
	kept = askBurst / 2
)

// budget is what is left of the asks for a key: a bucket of them, as the time at
// which it will be full, in µs of the front's clock. The zero value is full.
type budget struct{ full int64 }

// pace is how fast a budget fills, and how much it holds.
type pace struct {
	gap   int64 // µs for one ask
	burst int64 // asks
}

// paceOf is the pace of the asks for a counter of a policy. An exact rule has none:
// who would be admitted must not wait for others to gather. It asks once for all
// that came during the last round trip; who is refused is refused from memory, but
// for one in a lease interval.
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

// allow lets one ask be made, whatever was made before: for somebody who fits into what is
// left by all that is known here. To refuse that one would be wrong, and such asks are
// bounded by the limit itself. One that is denied tells that others have taken it; then
// nobody fits before there is more. One that is granted hands out what it needs, and with
// it a thirty-second of the limit, or half of what is left. So each full use of a limit
// makes some 64 for requests that cost less than a sixty-fourth of it, as many for those
// that cost more, and twice log2 of the limit, on the way up to leases of that size and on
// the way down to the last unit; a lease that lapses makes one; of a key that is being
// refused there are none.
func (b *budget) allow(now lease.Millis, p pace) {
	if p.gap > 0 {
		b.full = min(b.full, int64(now)*1000+(p.burst-1)*p.gap)
	}
}

// idle reports a budget that is full, as a new one is.
func (b *budget) idle(now lease.Millis) bool { return b.full <= int64(now)*1000 }
