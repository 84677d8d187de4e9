package reserve

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
)

// MaxRegions bounds the regions of which an aggregator knows something.
const MaxRegions = 64

// maxIssued bounds the shares of one region that may be in force: with so many it gets no other one.
const maxIssued = 8

// heardFor is how long a record is the one of its region after its last statement: another one under the
// same name is rejected until then.
const heardFor = 2 * limit.Second

// Shares is what all aggregators on one store know together, and keep there: which shares were issued, what
// regions have renounced, and the latest time that was told. It is a value: methods return the next one, to be
// stored by compare-and-set. The zero value knows no region.
//
// An aggregator decides and answers by the copy that it stored last, with Told = its time then, and for
// at most Ahead/2: its time is that Told and what passed since on its steady clock. So no other one can know a
// later table and a time that is further behind. What a region states of Until and Used may join the copy at
// once; a share is told once it is stored.
type Shares struct {
	// Told is the latest time of an aggregator when it stored this, see [Shares.Time].
	Told limit.Micros
	// Regions are those that have, or may have, a share in force, by name.
	Regions map[string]Region
}

// Region is what is known of one region.
type Region struct {
	ID    uint64       // of the record that speaks for it; 0: none has yet
	Heard limit.Micros // when it spoke last
	Until limit.Micros // renounced: windows that begin at or before this; 0: nothing is known to be
	Used  []Span
	// Issued are the shares that may be in force, by number. The last one is the region's share by now. One without
	// Since is as the region stated it: nobody knows when it was issued.
	Issued []Share
}

// Time is the aggregator's time: its store's clock, or what was told before if that clock is behind. It does
// not decide if it is further [maxBehind].
func (s Shares) Time(now limit.Micros) (at limit.Micros, decides bool) {
	return max(now, s.Told), now >= s.Told-maxBehind
}

// Check is an error that names what is impossible in a table that was read. Such a table is not used: what regions
// may use is then known by what they state.
func (s Shares) Check() error {
	if s.Told < 0 || len(s.Regions) > MaxRegions {
		return errors.New("a time before 1970, or more than " + number(MaxRegions) + " regions")
	}
	sum := PerMille(0)
	for name, r := range s.Regions {
		most, err := r.check()
		if err != nil {
			return errors.New("region " + name + ": " + err.Error())
		}
		sum += most
	}
	if sum > Whole {
		return errors.New("the shares of all regions add up to " + number(sum) + " thousandths of a limit")
	}
	return nil
}

// check is Shares.Check for one region; most is its largest share.
func (r Region) check() (most PerMille, err error) {
	if len(r.Issued) > maxIssued {
		return 0, errors.New(number(len(r.Issued)) + " shares, at most " + number(maxIssued))
	}
	for i, share := range r.Issued {
		if share.Part < 0 || share.Part > Whole || i > 0 && share.No <= r.Issued[i-1].No {
			return 0, errors.New("share " + strconv.FormatUint(share.No, 10) + " of " + number(share.Part) + " thousandths is out of range or order")
		}
	}
	return r.most(), Statement{ID: max(r.ID, 1), Until: r.Until, Used: r.Used}.Check(max(r.Until, Ahead))
}

// Errors of a statement, each of which leaves all that is known as it was.
var (
	// ErrOtherRecord rejects a second record under a region's name while the first is heard.
	ErrOtherRecord = errors.New("another store uses this region's name: give each region its own name, and the replicas of a region one store")
	// ErrTooManyRegions rejects a region for which there is no room.
	ErrTooManyRegions = errors.New("more than " + strconv.Itoa(MaxRegions) + " regions have shares: declare removed regions dead")
)

// StatementError names what is impossible in a statement.
type StatementError struct{ Field, Reason string }

func (e *StatementError) Error() string { return "reserve." + e.Field + ": " + e.Reason }

func number[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// Check is a *StatementError if no region can state this truthfully to an aggregator whose time is at.
func (s Statement) Check(at limit.Micros) error {
	switch {
	case s.ID == 0:
		return &StatementError{"id", "0, must be random"}
	case s.Until < 0 || s.Until > at+limit.Day:
		return &StatementError{"until", number(s.Until-at) + " µs after the aggregator's time, at most " + number(limit.Day) + ": no aggregator on this store has told that"}
	case s.No > uint64(at+limit.Day):
		return &StatementError{"no", "a share that was never issued"}
	case s.Part < 0 || s.Part > Whole:
		return &StatementError{"part", number(s.Part) + ", must be 0 to " + number(Whole)}
	case len(s.Used) > maxSpans:
		return &StatementError{"used", number(len(s.Used)) + " spans, at most " + number(maxSpans)}
	}
	for _, u := range s.Used {
		if u.After < 0 || u.Until < u.After || u.Until > limit.Never {
			return &StatementError{"used", "windows after " + number(u.After) + " until " + number(u.Until) + ", must be in this order and before the year 2252"}
		}
	}
	return nil
}

// Heard takes a statement of a region at the aggregator's time. configured is the region's share by the rules.
// unknown reports that the region states a number that was never issued, as far as is known: it then counts as
// issued, with no more than is configured. An older copy of the table has that for a moment; the table itself only
// if it was lost.
func (s Shares) Heard(name string, st Statement, at limit.Micros, configured PerMille) (next Shares, unknown bool, err error) {
	if err := st.Check(at); err != nil {
		return s, false, err
	}
	r, known := s.Regions[name]
	switch {
	case !known && configured == 0:
		return s, false, nil // it has no share, so there is nothing to know
	case !known && len(s.Regions) >= MaxRegions:
		return s, false, ErrTooManyRegions
	case r.ID != 0 && r.ID != st.ID && at < r.Heard+heardFor:
		return s, false, ErrOtherRecord
	case !known && st.Until == 0:
		r.Until = at + Unknown // it will renounce this: see Replied
	}
	r.ID, r.Heard = st.ID, max(r.Heard, at)
	if st.Until > r.Until {
		r.Until, r.Used = st.Until, st.Used
	}
	r.Issued, unknown = r.inForce(st.No, min(st.Part, configured, s.unassigned(name)))
	next = s.clone()
	next.Regions[name] = r
	return next, unknown, nil
}

// inForce is the shares that may be in force by now if the region uses none older than a number. unknown reports that
// it is not known to be issued. It then counts as a share of so much, beside all that are known: which of those the
// region had, and may use in windows that began before it got this one, is not known either.
func (r Region) inForce(no uint64, part PerMille) (issued []Share, unknown bool) {
	i := slices.IndexFunc(r.Issued, func(s Share) bool { return s.No >= no })
	switch {
	case i >= 0 && r.Issued[i].Since != 0:
		return r.Issued[i:], false
	case i >= 0 || no == 0:
		return r.Issued, false
	}
	known := r.Issued
	if n := len(known); n > 0 && known[n-1].Since == 0 {
		known = known[:n-1]
	}
	known = known[max(0, len(known)+1-maxIssued):] // only a liar has more
	return append(slices.Clone(known), Share{No: no, Part: part}), true
}

// Issued is the table after the region got the share that is configured for it, as far as there is room for a
// larger one. changed is false if it has that. Numbers are times, so that they grow even where the table was lost.
func (s Shares) Issued(name string, configured PerMille, at limit.Micros) (next Shares, changed bool) {
	r, known := s.Regions[name]
	n := len(r.Issued)
	if !known || n >= maxIssued {
		return s, false
	}
	share := Share{No: uint64(at), Part: min(configured, s.unassigned(name)), Since: at + Ahead + maxBehind}
	if n > 0 {
		last := r.Issued[n-1]
		if last.Since != 0 && last.Part == share.Part {
			return s, false
		}
		share.No = max(share.No, last.No+1)
	}
	next = s.clone()
	r.Issued = append(slices.Clone(r.Issued), share)
	next.Regions[name] = r
	return next, true
}

// unassigned is what all other regions leave, whichever of their shares are in force.
func (s Shares) unassigned(name string) PerMille {
	room := Whole
	for other, r := range s.Regions {
		if other != name {
			room -= r.most()
		}
	}
	return max(room, 0)
}

// most is the largest share that may be in force.
func (r Region) most() (part PerMille) {
	for _, s := range r.Issued {
		part = max(part, s.Part)
	}
	return part
}

// Reply is what a region is told at the aggregator's time. One that is not known has a share of 0, whatever it had
// before.
func (s Shares) Reply(name string, id uint64, at limit.Micros) Reply {
	r, known := s.Regions[name]
	p := Reply{ID: id, At: at, Until: r.Until, Used: r.Used}
	if n := len(r.Issued); n > 0 {
		p.Share = r.Issued[n-1]
	} else if !known {
		p.Share = Share{No: uint64(at), Since: at}
	}
	return p
}

// Withheld is the part of a limit that is withheld from all in a window that begins at a time.
func (s Shares) Withheld(w Window, begin limit.Micros) PerMille {
	return s.WithheldBetween(w, begin, begin)
}

// WithheldBetween is what is withheld in a window of which is known only that it begins between two times, both
// included.
//
// Of a token bucket a share is withheld for one window more than the region may use: what the region used is
// missing in the bucket, and after as long as a bucket takes to fill nothing of it is missing any more, whether
// anybody asked for the key meanwhile or not.
func (s Shares) WithheldBetween(w Window, first, last limit.Micros) (sum PerMille) {
	if w.LooksBack || w.Refills {
		first -= w.Period
	}
	for _, r := range s.Regions {
		if r.mayUse(first, last) {
			sum += r.most()
		}
	}
	return min(sum, Whole)
}

// mayUse reports whether the region may use its reserve in a window that begins between two times, as far as is known.
func (r Region) mayUse(first, last limit.Micros) bool {
	return last > r.Until || slices.ContainsFunc(r.Used, func(s Span) bool { return s.After < last && first <= s.Until })
}

// Dead is what is known without a region that a person has declared dead: nothing of it is withheld any more.
func (s Shares) Dead(name string) Shares {
	next := s.clone()
	delete(next.Regions, name)
	return next
}

func (s Shares) clone() Shares {
	s.Regions = maps.Clone(s.Regions)
	if s.Regions == nil {
		s.Regions = map[string]Region{}
	}
	return s
}
