package regions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
)

// Exchange sets records of when regions were silent, in the order of their names, and returns those
// that all aggregators on one store have set, and the time of a clock that all of them read in that moment. An
// empty record sets nothing, and is none.
type Exchange func(ctx context.Context, regions []string, records [][]byte) (now limit.Micros, all [][]byte, err error)

const (
	// newer is by how much later a silence has to begin by the record of another aggregator than it would
	// here, for that to know more: the region calls the other one.
	newer = limit.Second
	// mostSkew is how much a record may be ahead of the clock that all read, as after a failover of Redis.
	mostSkew = limit.Second
)

// offset is how far the clock that all aggregators read is ahead of the steady one of this process. It was
// read while an exchange was on its way, so it is known within bounds.
type offset struct {
	least, most limit.Micros
	known       bool
}

// Share exchanges with the other aggregators on one store when regions were silent. A region that calls one of
// them is connected for all, and whoever is called next goes on with the silences of the one before. Call it twice a
// second. After an error it is tried again with the next call.
func (s *Store) Share(ctx context.Context, with Exchange) error {
	l := &s.links
	names, records := l.toShare()
	before := l.steady()
	now, all, err := with(ctx, names, records)
	if err == nil && len(all) != len(names) {
		err = fmt.Errorf("%d records, want %d", len(all), len(names))
	}
	if err != nil {
		l.notShared(names, records)
		return err
	}
	return l.adopt(names, all, now, offset{now - l.steady(), now - before, true})
}

// toShare are the regions, and records of those that have called here since the last exchange. A record
// never has a silence begin too late or end too early, whatever the clocks.
func (l *links) toShare() (names []string, records [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, one := range l.known {
		var record []byte
		if one.news && l.shared.known {
			since, past := one.silence.Known()
			r := saved{Region: name, At: l.steady() + l.shared.least, Since: since + l.shared.least}
			for _, p := range past {
				r.Past = append(r.Past, [2]limit.Micros{p.From + l.shared.least, p.To + l.shared.most})
			}
			record, _ = json.Marshal(r) // a string and numbers: no error
			one.news = false
		}
		names, records = append(names, name), append(records, record)
	}
	return names, records
}

// notShared notes that records may not have been set.
func (l *links) notShared(names []string, records [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, name := range names {
		if one := l.known[name]; one != nil && records[i] != nil {
			one.news = true
		}
	}
}

// adopt takes the records of other aggregators that know more.
func (l *links) adopt(names []string, records [][]byte, now limit.Micros, o offset) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = o
	for i, name := range names {
		one := l.known[name]
		if one == nil || len(records[i]) == 0 {
			continue
		}
		var r saved
		if wrong := json.Unmarshal(records[i], &r); wrong != nil {
			err = errors.Join(err, fmt.Errorf("the record of the region %q: %w", name, wrong))
			continue
		}
		since, past := r.Since-o.most, make([]silence.Span, 0, len(r.Past))
		if r.At > now+mostSkew {
			since = 0 // the clock was set back: see Load
		}
		for _, p := range r.Past {
			past = append(past, silence.Span{From: p[0] - o.most, To: p[1] - o.least})
		}
		if open, _ := one.silence.Known(); !one.called || since > open+newer {
			one.silence, one.resumed = silence.Resume(since, past), true
		}
	}
	return err
}
