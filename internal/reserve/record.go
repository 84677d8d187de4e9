package reserve

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

const (
	// Ahead is how far after the aggregator's time a region renounces.
	Ahead = 3 * limit.Second
	// Beat is the longest time between two calls of a replica.
	Beat = limit.Second / 2
	// FreshFor is how old a call may be, by the replica's steady clock, whose reply still counts.
	FreshFor = 2 * limit.Second
	// Behind is by how much the time of one aggregator may be behind what another one has told. One that is
	// further behind must not decide.
	Behind = limit.Second
	// HoldFor is for how long nobody renounces after wants were not decided in time.
	HoldFor = 3 * limit.Second / 2
)

// Share is a region's part of every limit, as the aggregator issued it.
type Share struct {
	No    uint64       // numbers shares in the order of issue; 0: none was issued
	Part  PerMille     // of each limit
	Since limit.Micros // a larger part than before counts in windows that begin after this
}

// Record is what a region keeps in its own store, for all of its replicas and all rules. It is a value:
// methods return the next one, to be written before anything that follows from it is sent or used. Times
// are the aggregator's, but for those of the region's store, which say so. The zero value is the record of a
// region that knows nothing.
type Record struct {
	// ID is random, made with the record and never 0 in one.
	ID uint64
	// Until: the reserve is renounced in all windows that begin at or before this. 0: it is not known
	// yet what was renounced, and there is no reserve.
	Until limit.Micros
	// Span has windows in which the reserve may still be used although they are before Until: those of the last
	// outage. It is one of Used.
	Span Span
	// Used has the windows in which the reserve may have been used, as long as one of any rule runs.
	Used []Span
	// Touched is the latest time, by the region's store, for which permission was given since Until was
	// written; 0: none was given.
	Touched limit.Micros
	// Share is that of the newest reply; Low is the least part, and High the largest, in force since the
	// last renouncement with nothing used.
	Share     Share
	Low, High PerMille
	// Oldest is the number of the oldest share that was used in Used or since Until was written; 0: none.
	Oldest uint64
	// Held: nobody renounces before this time of the region's store.
	Held limit.Micros
	// Cut is when wants stopped being decided, by the region's store; 0: they are.
	Cut limit.Micros
}

// Check is an error that names what is impossible in a record that was read.
// Such a record is not used: the region begins with an empty one.
func (r Record) Check() error {
	if r.Share.Part < 0 || r.Share.Part > Whole || r.Low < 0 || r.Low > r.High || r.High > Whole {
		return &StatementError{"part", "a share or its bounds are out of range"}
	}
	return Statement{ID: r.ID, Until: r.Until, Used: r.Used}.Check(max(r.Until, Ahead))
}

// Reply is what the aggregator tells a region with each reply.
type Reply struct {
	ID    uint64       // of the record whose statement the call had
	At    limit.Micros // the aggregator's time
	Share Share
	// Until and Used are what the aggregator knows of the region, for one that has lost its record.
	Until limit.Micros
	Used  []Span
}

// Statement is what a region tells the aggregator with each call.
type Statement struct {
	ID    uint64
	Until limit.Micros // 0: the region knows nothing and asks what it has stated
	Used  []Span
	// No is the number of the oldest share that the region may use, and Part the largest that it may: by
	// these an aggregator that has lost its table knows what to withhold.
	No   uint64
	Part PerMille
}

// Statement is what the record, as it is stored, states.
func (r Record) Statement() Statement {
	s := Statement{ID: r.ID, Until: r.Until, Used: r.Used, No: r.Share.No, Part: max(r.High, r.Share.Part)}
	if r.Oldest != 0 {
		s.No = r.Oldest
	}
	return s
}

// Replied takes a reply to a call that was sent at most [FreshFor] ago. A reply to another record changes
// nothing.
func (r Record) Replied(p Reply) Record {
	if p.ID != r.ID {
		return r
	}
	if p.Share.No > r.Share.No {
		r.Low, r.High = min(r.Low, r.Share.Part), max(r.High, p.Share.Part)
		r.Share = p.Share
	}
	if r.Until == 0 {
		r.Until, r.Used = max(p.Until, p.At+Ahead), p.Used
	}
	return r
}

// Renounced is the record after the region renounced its reserve by the aggregator's time in the newest reply,
// if it may: now is the time of the region's store. What was used joins Used; what windows of all rules
// need no more leaves it.
func (r Record) Renounced(at, now limit.Micros, windows []Window) Record {
	until := at + Ahead
	if r.Until != 0 && until > r.Until && now >= r.Held {
		r.Cut = 0
		if r.Touched != 0 {
			r.Span = Span{r.Until, max(r.Touched, min(at, until))}
			r.Used = joined(r.Used, r.Span)
			r.Touched = 0
		}
		r.Until = until
		if len(r.Used) == 0 && until > r.Share.Since {
			r.Low, r.High = r.Share.Part, r.Share.Part
		}
	}
	return r.expired(at, windows)
}

// expired forgets what was used in windows of which none matters any more.
func (r Record) expired(at limit.Micros, windows []Window) Record {
	over := func(s Span) bool {
		return !slices.ContainsFunc(windows, func(w Window) bool { return w.runs(s, at) })
	}
	if slices.ContainsFunc(r.Used, over) {
		r.Used = slices.DeleteFunc(slices.Clone(r.Used), over)
	}
	if !slices.Contains(r.Used, r.Span) {
		r.Span = Span{}
	}
	if len(r.Used) == 0 && r.Touched == 0 {
		r.Oldest = 0
	}
	return r
}

// joined is a list with one more span. The oldest two of too many become one.
func joined(used []Span, s Span) []Span {
	used = append(slices.Clone(used), s)
	if len(used) > MaxSpans {
		hull := Span{min(used[0].After, used[1].After), max(used[0].Until, used[1].Until)}
		used = append([]Span{hull}, used[2:]...)
	}
	return used
}

// Hold is the record after a replica noticed, at a time of the region's store, that wants were not decided.
func (r Record) Hold(now limit.Micros) Record {
	r.Held = max(r.Held, now+HoldFor)
	if r.Cut == 0 {
		r.Cut = now
	}
	return r
}

// Permission is for which windows a region may use its reserve, and how much of it.
type Permission struct {
	since, last Span
	share       Share
	low         PerMille
	// Cut is when the region's wants stopped being decided, by its store; 0: never, or it is not known.
	Cut limit.Micros
}

// Permitted gives permission at a time of the region's store, for the windows that have begun by then, and
// is the record that has to be written before it is used.
func (r Record) Permitted(now limit.Micros) (Record, Permission) {
	if r.Cut == 0 {
		r.Cut = now
	}
	p := Permission{share: r.Share, low: r.Low, Cut: r.Cut, last: r.Span}
	if r.Until == 0 {
		return r, p
	}
	if now > r.Until {
		r.Touched = max(r.Touched, now)
		if r.Oldest == 0 {
			r.Oldest = r.Share.No
		}
	}
	if r.Touched != 0 {
		p.since = Span{r.Until, r.Touched}
	}
	return r, p
}

// For reports whether the reserve may be used in a window that begins at a time, and which part of a limit it
// is there.
func (p Permission) For(w Window, begin limit.Micros) (PerMille, bool) {
	if !p.has(begin) {
		return 0, false
	}
	if before, looks := w.before(begin); looks && !p.has(before) {
		return 0, false
	}
	return p.part(w, begin), true
}

func (p Permission) has(begin limit.Micros) bool { return p.since.Has(begin) || p.last.Has(begin) }

// part is the share in a window: a larger one than before counts from Since on, and of a limit that looks
// back the window before has to be after that as well.
func (p Permission) part(w Window, begin limit.Micros) PerMille {
	if before, looks := w.before(begin); looks {
		begin = before
	}
	if begin > p.share.Since {
		return p.share.Part
	}
	return min(p.low, p.share.Part)
}

// Part is the share by which a region goes on, at its part of the rate, in windows that it has renounced.
func (p Permission) Part() PerMille { return p.share.Part }
