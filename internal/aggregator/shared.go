package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
)

// Exchange is how aggregators on one store read and set records of when regions were silent.
type Exchange func(ctx context.Context, e Records) (Exchanged, error)

// Records are those to set. Times are of the clock that all aggregators read.
type Records struct {
	Regions []string
	Set     [][]byte     // of each of them; empty: its record stays
	After   limit.Micros // nothing is set if the clock shows less than this, or over a second more
}

// Exchanged is what was found.
type Exchanged struct {
	Now    limit.Micros // the time of that clock
	Found  [][]byte     // the records before any was set; empty: there is none
	WasSet bool
}

// slack is by how much the clock that all read may run differently from the steady one between two
// exchanges. More is a step.
const slack = 100 * limit.Millisecond

// offset is how far the clock that all aggregators read is ahead of the steady one of this process. It was
// read while an exchange was on its way, so it is known within bounds.
type offset struct {
	least, most limit.Micros
	known       bool
}

// stepped reports whether the clock was set between two readings.
func (o offset) stepped(next offset) bool {
	return o.known && (next.least > o.most+slack || next.most < o.least-slack)
}

// Share exchanges with the other aggregators on one store when regions were silent, if the store has an
// Exchange. Each of them has the signs of the regions that call it, and a silence that contains the
// region's own. So what all of them have contains it, too: a region that calls one is connected for all, and
// whoever is called next goes on with the silences of the one before. Call it again and again, at least twice a
// second. After an error it is tried again with the next call.
func (s *Store) Share(ctx context.Context) error {
	l := &s.links
	if l.exchange == nil {
		return nil
	}
	e := l.toShare()
	before := l.steady()
	got, err := l.exchange(ctx, e)
	if err == nil && len(got.Found) != len(e.Regions) {
		err = fmt.Errorf("%d records, want %d", len(got.Found), len(e.Regions))
	}
	if err != nil {
		l.notShared(e)
		return err
	}
	if !got.WasSet {
		l.notShared(e)
	}
	return l.adopt(e.Regions, got, offset{got.Now - l.steady(), got.Now - before, true})
}

// toShare are the regions, and records of those of which this aggregator knows more than was found. A record
// never has a silence begin too late or end too early, whatever the clocks.
func (l *links) toShare() (e Records) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, one := range l.known {
		var record []byte
		if one.news && !one.undecided && l.shared.known {
			since, past := one.silence.Known()
			r := saved{Region: name, At: l.steady() + l.shared.least, Since: since + l.shared.least, Writer: l.writer}
			if one.from > 0 {
				r.From = one.from + l.shared.least
			}
			for _, p := range past {
				r.Past = append(r.Past, [2]limit.Micros{p.From + l.shared.least, p.To + l.shared.most})
			}
			record, _ = json.Marshal(r) // strings and numbers: no error
			one.news = false
		}
		e.Regions, e.Set = append(e.Regions, name), append(e.Set, record)
	}
	e.After = l.steady() + l.shared.least - slack
	return e
}

// notShared notes that records were not set, or may not have been. A region of which nothing could be
// found out for silence.After counts as one that nobody knows.
func (l *links) notShared(e Records) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, name := range e.Regions {
		one := l.known[name]
		if one == nil {
			continue
		}
		one.news = one.news || e.Set[i] != nil
		if one.undecided && l.steady() >= one.began+silence.After {
			l.forget(one, l.steady())
		}
	}
}

// adopt takes what other aggregators know into account.
func (l *links) adopt(names []string, got Exchanged, o offset) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	step := l.shared.stepped(o)
	l.shared = o
	for i, name := range names {
		one := l.known[name]
		if one == nil {
			continue
		}
		raw := string(got.Found[i])
		if raw == "" && one.undecided {
			l.forget(one, l.steady())
		}
		one.news = one.news || l.called && (raw == "" || step)
		if raw == "" || raw == one.found {
			continue
		}
		one.found = raw
		var r saved
		if wrong := json.Unmarshal([]byte(raw), &r); wrong != nil {
			err = errors.Join(err, fmt.Errorf("the record of the region %q: %w", name, wrong))
			continue
		}
		if r.Writer == l.writer && !one.undecided {
			continue
		}
		other, from := r.in(o, got.Now)
		if !one.undecided {
			from = min(from, one.from)
		}
		one.silence, one.from, one.undecided, one.resumed = silence.And(one.silence, other), from, false, true
	}
	return err
}

// in is the silence of a record by the steady clock, and from when it is withheld. If the clock was set back since,
// nobody can find out, and it is for ever before: see [Store.Load].
func (r *saved) in(o offset, now limit.Micros) (s silence.Silence, from limit.Micros) {
	since, past := r.Since-o.most, make([]silence.Span, 0, len(r.Past))
	if r.From > 0 {
		from = max(1, r.From-o.most)
	}
	if r.At > now {
		since, from = 0, 0
	}
	for _, p := range r.Past {
		past = append(past, silence.Span{From: p[0] - o.most, To: p[1] - o.least})
	}
	return silence.Resume(since, past), from
}
