package script

import (
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Mode is how far a script goes. The zero value is Acquire.
type Mode uint8

// The modes.
const (
	// Acquire settles what the ask gives back and reports, and decides.
	Acquire Mode = iota
	// Fit settles, and decides only if the need does not fit, so that the denial is
	// final. If it fits nothing is granted: the first phase of a group. The second
	// is Acquire of what the ask wants, without what has been settled.
	Fit
	// Look is [engine.Look], and Reset [engine.Reset].
	Look
	Reset
)

// The arguments of the scripts, by algorithm. Lua unpacks them into local variables
// of these names. Units have four bytes, times seven, periods six and ttls five.
var (
	bucketArgs = joined(wantArgs, fields{
		{name: "rate", size: 4}, {name: "cost", size: 6}, {name: "full", size: 7}, {name: "fill", size: 7}, // see limit.Figures
		{name: "unit", size: 4},
		{name: "coin", size: 3},    // see coin
		{name: "longest", size: 7}, // ttl
	})
	fixedArgs = joined(wantArgs, askArgs, fields{
		{name: "lead", size: 6},  // 0 unless the next window will do
		{name: "first", size: 1}, // 1: windows begin with a charge; 2: with a calendar, see appendBegins
	})
	slidingArgs = joined(wantArgs, askArgs, fields{{name: "unit", size: 4}, {name: "periods", size: 6}})
	logArgs     = joined(wantArgs, askArgs, fields{{name: "pause", size: 6}}) // the least interval
	slotArgs    = fields{
		{name: "now", size: 7}, {name: "fit", size: 1},
		{name: "op", size: 1}, // engine.Op
		{name: "id", size: 8, raw: true}, {name: "seq", size: 7},
		{name: "holding", size: 4}, {name: "need", size: 4}, {name: "waiting", size: 4}, {name: "want", size: 4},
		{name: "count", size: 4}, {name: "ttl", size: 5},
	}

	// wantArgs are of every limit on units.
	wantArgs = fields{
		{name: "now", size: 7}, // 0: by the server's clock
		{name: "fit", size: 1}, // the Mode
		{name: "need", size: 4}, {name: "waiting", size: 4}, {name: "want", size: 4},
		{name: "withheld", size: 4},
		{name: "unused", size: 4}, {name: "lease", size: 4},
		{name: "owed", size: 4},  // overdrawn, charged unless it has a key that is there
		{name: "debt", size: 5},  // the same, and what was rejected where that is charged
		{name: "asked", size: 1}, // 0: a report that charges nothing, which makes no key
		{name: "exact", size: 1}, // 1: what is granted is not out on lease
		{name: "penal", size: 1}, // 1: a denied need is charged
		{name: "count", size: 4}, // what a new counter holds: a bucket's burst
		{name: "period", size: 6},
		{name: "long", size: 5},    // ttl of a lease from a limit that is at least half full
		{name: "brief", size: 5},   // and from one that is not
		{name: "paid_ms", size: 3}, // ms for which a debt is remembered after it was reported
	}
	// blockArgs are the second argument of an ask for a limit that blocks.
	blockArgs = fields{
		{name: "lasts", size: 7}, {name: "kept", size: 4}, {name: "settled", size: 4}, {name: "lookback", size: 7},
		{name: "reserves", size: 1}, // 1: what is granted in the window that begins at `at`; 2: of a bucket
	}
	// beginArgs is one of the begins behind fixedArgs.
	beginArgs = fields{{name: "begin", size: 7}}
	// askArgs are those of algorithms that share what is left among the askers.
	askArgs = fields{{name: "fresh", size: 1}, {name: "interval", size: 6}}
)

func joined(parts ...fields) (all fields) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// maxSeq is the largest call number that a double distinguishes from its neighbours. A
// holder's calls beyond that, which none will ever make, count as one.
const maxSeq = 1<<53 - 1

// AppendArgs appends the packed argument of an ask. now is the clock of a test; 0
// is the server's, in production. The ask's numbers may be anything: as in
// [limit.Ask], what is out of order is taken for the nearest legal value.
func AppendArgs(dst []byte, a *engine.Ask, m Mode, now limit.Micros) []byte {
	if now != 0 {
		now = limit.LegalTime(now)
	}
	l, t, w := a.Policy.Limit, &a.Policy.Terms, &a.Want
	s, f := l.Spec(), l.Figures()
	if s.Algorithm == limit.Concurrency {
		return slotArgs.append(dst, uint64(now), uint64(m), uint64(a.Op), a.Holder, min(a.Seq, maxSeq),
			units(w.Holding), units(w.Need), units(w.Waiting), units(w.Want), uint64(s.Count), uint64(s.LeaseTTL))
	}
	var values [maxArgs]uint64
	v := appendWant(values[:0], w, s.ChargeRejected)
	v[0], v[1], v[11] = uint64(now), uint64(m), limit.Bit(t.Consistency == lease.Exact)
	v = append(v, uint64(f.Capacity), uint64(s.Period), uint64(f.TTLLong), uint64(f.TTLShort), debtMemory(t))
	switch s.Algorithm {
	case limit.TokenBucket:
		v = append(v, uint64(f.Rate), uint64(f.Cost), uint64(f.Cap), uint64(f.Fill), uint64(f.Unit), coin(s.Period, f.Cost), longest(t))
		return bucketArgs.append(dst, v...)
	case limit.FixedWindow:
		var lead uint64
		if w.Next {
			lead = micros(t.Lead + t.Interval)
		}
		first := uint64(s.Align)
		if s.Calendar != nil && s.Calendar.Windows != nil {
			first = 2
		}
		return appendBegins(fixedArgs.append(dst, append(v, limit.Bit(w.Fresh), micros(t.Interval), lead, first)...), s.Calendar, now)
	case limit.SlidingWindow:
		return slidingArgs.append(dst, append(v, limit.Bit(w.Fresh), micros(t.Interval), uint64(f.Unit), uint64(f.Periods))...)
	}
	return logArgs.append(dst, append(v, limit.Bit(w.Fresh), micros(t.Interval), uint64(s.MinInterval))...)
}

// AppendBlockArgs appends the second argument of an ask for a limit that blocks; nothing for any other.
func AppendBlockArgs(dst []byte, a *engine.Ask) []byte {
	l := a.Policy.Limit
	if !l.Blocks() {
		return dst
	}
	s := l.Spec()
	reserves := limit.Bit(s.Reserves)
	if s.Algorithm == limit.TokenBucket {
		reserves *= 2
	}
	return blockArgs.append(dst, uint64(s.Block), uint64(s.Kept), units(a.Want.Settled), uint64(l.Figures().Lookback), reserves)
}

// appendBegins appends when windows of a calendar begin, around now or, with 0, the time of this machine. The script
// chooses among them by its own clock.
func appendBegins(dst []byte, c *limit.Calendar, now limit.Micros) []byte {
	if c == nil || c.Windows == nil {
		return dst
	}
	if now == 0 {
		now = limit.Micros(time.Now().UnixMicro())
	}
	for _, begin := range c.Windows.Around(now) {
		dst = beginArgs.append(dst, uint64(begin))
	}
	return dst
}

// appendWant appends wantArgs up to penal; those that are not the want's are 0.
func appendWant(v []uint64, w *lease.Want, penal bool) []uint64 {
	need := units(w.Need)
	waiting := max(units(w.Waiting+w.Soon), need)
	owed := units(w.Overdrawn)
	debt := owed
	if penal {
		debt += units(w.Denied)
	}
	return append(v, 0, 0, need, waiting, max(units(w.Want), waiting), units(w.Withheld), units(w.Unused), uint64(w.Lease), owed, debt,
		limit.Bit(w.Want > 0 || debt > 0), 0, limit.Bit(penal))
}

// debtMemory is how long a debt is remembered after it was reported, in ms: much longer than
// a holder takes to repeat it, so that no outage comes between. Those of an optimistic
// rule are no failures: each of its dry spells makes one, and most are reported once.
func debtMemory(t *lease.Terms) uint64 {
	if t.Consistency == lease.Optimistic {
		return 30_000
	}
	return 600_000
}

// longest is the longest ttl of a lease on a bucket.
func longest(t *lease.Terms) uint64 {
	if t.LongestTTL > 0 {
		return micros(t.LongestTTL)
	}
	return uint64(limit.Never)
}

const maxArgs = 26

// coin is what a token costs, in three bytes: a bucket remembers it to notice when a
// changed count has changed the unit of its credit. Cost divides the period, which
// is shorter than 2^45 µs: of the cost and what it divides the period into, one is
// below 2^23.
func coin(period limit.Micros, cost int64) uint64 {
	if cost < 1<<23 {
		return uint64(cost)
	}
	return 1<<23 + uint64(int64(period)/cost)
}

func units(n int64) uint64 { return uint64(min(max(n, 0), limit.MaxCount)) }

// micros is a duration in microseconds, at least 1.
func micros(d lease.Millis) uint64 {
	return uint64(min(max(d, 0), lease.Never)) * uint64(limit.Millisecond)
}
