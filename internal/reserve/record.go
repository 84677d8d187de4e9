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
	// maxBehind is by how much the clock of the aggregators' store may be behind what was told. Further behind, they do
	// not decide.
	maxBehind = limit.Second
	// holdFor is for how long nobody renounces after wants were not decided in time.
	holdFor = 3 * limit.Second / 2
	// Unknown is how far after the aggregator's time a region renounces that does not know what it stated. No region
	// was told a time that is further ahead of the aggregator's than Ahead/2, see [Shares].
	Unknown = 2 * Ahead
)

// Share is a region's part of every limit, as the aggregator issued it.
type Share struct {
	No    uint64       // grows with each share of the region; 0: none was issued
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
	switch {
	case r.Share.Part < 0 || r.Share.Part > Whole || r.Low < 0 || r.Low > r.High || r.High > Whole:
		return &StatementError{"part", "a share or its bounds are out of range"}
	case r.Oldest > max(r.Share.No, anyOlder):
		return &StatementError{"no", "an older share has a larger number than the newest"}
	case min(r.Touched, r.Held, r.Cut, r.Share.Since) < 0 || max(r.Until, r.Touched, r.Held, r.Cut, r.Share.Since) > limit.Never:
		return &StatementError{"touched", "a time is before 1970 or after the year 2252"}
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
	// these an aggregator that has lost its table knows what to withhold. 0: it has none yet; it is answered
	// only from a table that was stored after this statement had arrived, since an older copy may have a share that
	// was forgotten.
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
	r = r.shared(p.Share)
	if empty := r.Until == 0; empty || r.Outdated(p) {
		own := slices.Clone(r.Used)
		if r.Touched != 0 {
			r.Span = Span{r.Until, r.Touched}
			own = append(own, r.Span)
		}
		if empty && p.Until < p.At { // by a record that was lost, it may have used what it had not renounced
			own = append(own, Span{p.Until, p.At})
		}
		r.Until, r.Used, r.Touched = max(p.Until, p.At+Unknown), p.Used, 0
		for _, used := range own {
			if !covered(r.Used, used) {
				r.Used = joined(r.Used, used)
			}
		}
		if len(r.Used) > 0 && r.Oldest == 0 {
			r.Oldest = anyOlder // which share was used there is not known
		}
	}
	return r
}

// anyOlder is the number of no share, older than all.
const anyOlder = 1

// shared is the record with a newer share.
func (r Record) shared(s Share) Record {
	if s.No > r.Share.No {
		r.Low, r.High = min(r.Low, r.Share.Part), max(r.High, s.Part)
		r.Share = s
	}
	return r
}

// Outdated reports whether a reply shows that the region has stated more than the record has: its store
// lost what was written.
func (r Record) Outdated(p Reply) bool { return p.ID == r.ID && r.Until != 0 && p.Until > r.Until }

// Remembered is the record as it was read, put right by what a replica remembers of it. It is to be written
// before it is used if it is not what was read. What the older of the two may have used stays withheld.
func (r Record) Remembered(memory Record) Record {
	behind := memory.Until > r.Until || memory.Until == r.Until && memory.Touched > r.Touched
	if memory.ID != 0 && (behind || r.ID == 0) {
		r, memory = memory, r
		r.Cut = 0 // another replica may have ended the outage since
	}
	if lost := (Span{memory.Until, memory.Touched}); memory.Until < r.Until && memory.Touched != 0 && !covered(r.Used, lost) {
		r.Used = joined(r.Used, lost)
		if r.Oldest == 0 || memory.Oldest < r.Oldest {
			r.Oldest = memory.Oldest
		}
	}
	return r.shared(memory.Share)
}

// covered reports whether a span is part of one of a list.
func covered(used []Span, s Span) bool {
	return slices.ContainsFunc(used, func(u Span) bool { return u.After <= s.After && s.Until <= u.Until })
}

// Renounced is the record after the region renounced its reserve by the aggregator's time in the newest reply to a
// call that was sent at most [FreshFor] ago, if nobody is held: sent and now are times of the region's store. What was
// used joins Used; what windows of all rules need no more leaves it.
func (r Record) Renounced(at, sent, now limit.Micros, windows []Window) Record {
	if now < r.Held && r.Held <= now+holdFor { // further ahead, the store's clock was set back
		return r.expired(at, windows)
	}
	if r.Cut <= sent { // else the reply says nothing of the time since
		r.Cut = 0
	}
	if until := at + Ahead; r.Until != 0 && until > r.Until {
		if r.Touched != 0 {
			r.Span = Span{r.Until, max(r.Touched, at)}
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

// expired forgets what was used in windows of which none matters any more. Without windows the rules are not known, and
// nothing is forgotten.
func (r Record) expired(at limit.Micros, windows []Window) Record {
	if windows == nil {
		return r
	}
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
	if len(used) > maxSpans {
		hull := Span{min(used[0].After, used[1].After), max(used[0].Until, used[1].Until)}
		used = append([]Span{hull}, used[2:]...)
	}
	return used
}

// Hold is the record after a replica noticed, at a time of the region's store, that wants were not decided.
func (r Record) Hold(now limit.Micros) Record {
	r.Held = now + holdFor
	return r.Stopped(now)
}

// Stopped is the record after wants, or calls, stopped being answered at a time of the region's store. One whose clock was set
// back begins anew.
func (r Record) Stopped(now limit.Micros) Record {
	if r.Cut == 0 || r.Cut > now {
		r.Cut = now
	}
	return r
}

// Permission is for which windows a region may use its reserve, and how much of it. The zero value is for
// none.
type Permission struct {
	since, last Span // since.After is the record's Until
	share       Share
	low         PerMille
	// Cut is when the region's wants stopped being decided, by its store; 0: never, or it is not known.
	Cut limit.Micros
}

// Permission is what was given by now.
func (r Record) Permission() Permission {
	p := Permission{share: r.Share, low: r.Low, Cut: r.Cut, last: r.Span}
	if r.Until != 0 {
		p.since = Span{r.Until, max(r.Until, r.Touched)}
	}
	return p
}

// Permitted gives permission at a time of the region's store, for the windows that have begun by then, and
// is the record that has to be written before it is used.
func (r Record) Permitted(now limit.Micros) (Record, Permission) {
	r = r.Stopped(now)
	if r.Until != 0 && r.Share.No != 0 && now > r.Until {
		r.Touched = max(r.Touched, now)
		if r.Oldest == 0 {
			r.Oldest = r.Share.No
		}
	}
	return r, r.Permission()
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

// After is the time after which the windows begin in which the reserve may be used, of those that this one belongs to; 0: it may
// not.
func (p Permission) After(begin limit.Micros) limit.Micros {
	switch {
	case p.since.Has(begin):
		return p.since.After
	case p.last.Has(begin):
		return p.last.After
	}
	return 0
}

// Known reports whether it is known what the region has renounced. Until then it has no reserve.
func (p Permission) Known() bool { return p.since.After != 0 }

// Extends reports whether permission for a window has only to be asked for: nobody has renounced the reserve
// there.
func (p Permission) Extends(begin limit.Micros) bool { return p.Known() && begin > p.since.Until }

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
// known is false if no share was issued to it.
func (p Permission) Part() (part PerMille, known bool) { return p.share.Part, p.share.No != 0 }
