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

// HeardFor is how long a record is the one of its region after its last statement: another one under the
// same name is refused until then.
const HeardFor = 2 * limit.Second

// Shares is what all aggregators on one store know together, and keep there: which shares were issued, what
// regions have renounced, and the latest time that was told. It is a value: methods return the next one. An
// issued share, and a time, are told only after the value that has them was stored by compare-and-set; Until
// and Used may be used at once. The zero value knows no region.
type Shares struct {
	// Told is the latest time that was told, as far as is stored: see [Shares.Time].
	Told limit.Micros
	// No is the largest number of a share.
	No uint64
	// Regions are those that have, or may have, a share in force, by name.
	Regions map[string]Region
}

// Region is what is known of one region.
type Region struct {
	ID    uint64       // of the record that speaks for it; 0: none has yet
	Heard limit.Micros // when it spoke last
	Until limit.Micros // renounced: windows that begin at or before this; 0: nothing is known to be
	Used  []Span
	// Issued are the shares that may be in force, by number. The last one is the region's share by now.
	Issued []Share
}

// Time is the aggregator's time: its store's clock, or what was told before if that clock is behind. It does
// not decide if it is further [Behind].
func (s Shares) Time(now limit.Micros) (at limit.Micros, decides bool) {
	return max(now, s.Told), now >= s.Told-Behind
}

// Errors of a statement, each of which leaves all that is known as it was.
var (
	// ErrOtherRecord refuses a second record under a region's name while the first is heard.
	ErrOtherRecord = errors.New("another store speaks for this region: give each region a name of its own, and the replicas of one region one store")
	// ErrTooManyRegions refuses a region for which there is no room.
	ErrTooManyRegions = errors.New("more than " + strconv.Itoa(MaxRegions) + " regions have shares: declare those dead that are gone")
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
	case s.Until < 0 || s.Until > at+Ahead+Behind:
		return &StatementError{"until", number(s.Until-at) + " µs after the aggregator's time, at most " + number(Ahead+Behind) + ": no aggregator on this store has told that"}
	case s.Part < 0 || s.Part > Whole:
		return &StatementError{"part", number(s.Part) + ", must be 0 to " + number(Whole)}
	case len(s.Used) > MaxSpans:
		return &StatementError{"used", number(len(s.Used)) + " spans, at most " + number(MaxSpans)}
	}
	for _, u := range s.Used {
		if u.After < 0 || u.Until < u.After {
			return &StatementError{"used", "windows after " + number(u.After) + " until " + number(u.Until) + ", must be in this order"}
		}
	}
	return nil
}

// Heard takes a statement of a region at the aggregator's time. configured is the region's share by the rules.
// unknown reports that the region states a number that was never issued, as far as is known: it then counts as
// issued, with no more than is configured.
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
	case r.ID != 0 && r.ID != st.ID && at < r.Heard+HeardFor:
		return s, false, ErrOtherRecord
	}
	r.ID, r.Heard = st.ID, max(r.Heard, at)
	if st.Until > r.Until {
		r.Until, r.Used = st.Until, st.Used
	}
	next = s.clone()
	if r.Issued = since(r.Issued, st.No); len(r.Issued) == 0 || st.No > r.Issued[len(r.Issued)-1].No {
		if unknown = st.No != 0; unknown {
			next.No = max(next.No, st.No)
			r.Issued = []Share{{No: st.No, Part: min(st.Part, configured, s.room(name))}}
		}
	}
	next.Regions[name] = r
	return next, unknown, nil
}

// since is the shares from a number on.
func since(issued []Share, no uint64) []Share {
	i := slices.IndexFunc(issued, func(s Share) bool { return s.No >= no })
	if i < 0 {
		return nil
	}
	return issued[i:]
}

// Issued is the table after the region got the share that is configured for it, as far as there is room for a
// larger one. changed is false if it has that.
func (s Shares) Issued(name string, configured PerMille, at limit.Micros) (next Shares, changed bool) {
	r, known := s.Regions[name]
	if !known {
		return s, false
	}
	part := min(configured, s.room(name))
	if n := len(r.Issued); n > 0 && r.Issued[n-1].Part == part || n == 0 && part == 0 {
		return s, false
	}
	next = s.clone()
	next.No++
	r.Issued = append(slices.Clone(r.Issued), Share{No: next.No, Part: part, Since: at + Ahead})
	next.Regions[name] = r
	return next, true
}

// room is what all other regions leave, whichever of their shares are in force.
func (s Shares) room(name string) PerMille {
	room := Whole
	for other, r := range s.Regions {
		if other != name {
			room -= r.most(limit.Never)
		}
	}
	return max(room, 0)
}

// most is the largest share that may be in force in a window that begins at a time.
func (r Region) most(begin limit.Micros) (part PerMille) {
	for _, s := range r.Issued {
		if s.Since < begin {
			part = max(part, s.Part)
		}
	}
	return part
}

// Reply is what a region is told at the aggregator's time.
func (s Shares) Reply(name string, id uint64, at limit.Micros) Reply {
	r := s.Regions[name]
	p := Reply{ID: id, At: at, Until: r.Until, Used: r.Used}
	if n := len(r.Issued); n > 0 {
		p.Share = r.Issued[n-1]
	}
	return p
}

// Withheld is the part of a limit that is withheld from all in a window that begins at a time.
func (s Shares) Withheld(w Window, begin limit.Micros) (sum PerMille) {
	for _, r := range s.Regions {
		if r.mayUse(begin) {
			sum += r.most(begin)
		} else if before, looks := w.before(begin); looks && r.mayUse(before) {
			sum += r.most(begin)
		}
	}
	return min(sum, Whole)
}

// mayUse reports whether the region may use its reserve in a window, as far as is known.
func (r Region) mayUse(begin limit.Micros) bool {
	return begin > r.Until || slices.ContainsFunc(r.Used, func(s Span) bool { return s.Has(begin) })
}

// Spent is for a token bucket: until ends, regions may have used so much of it. What nobody asked the
// aggregator for meanwhile is no longer there: at ends the bucket holds at most the rest. 0: nothing was used
// that matters at this time.
func (s Shares) Spent(w Window, at limit.Micros) (ends limit.Micros, part PerMille) {
	for _, r := range s.Regions {
		used := false
		for _, span := range r.Used {
			last := w.Begin(span.Until)
			if end := last + w.Period; last > span.After && end <= at && at < end+w.Period {
				ends, used = max(ends, end), true
			}
		}
		if used {
			part += r.most(limit.Never)
		}
	}
	return ends, min(part, Whole)
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
