package shedding

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/shed"
)

const (
	// rowLasts is how long a row counts that is not written again: then its worker was thrown away, or hangs.
	rowLasts lease.Millis = 10_000
	// sumsLast is how long the responses of a row count.
	sumsLast lease.Millis = 2000
)

// record is what the workers of a PoP agree on about a shed rule. The zero value is that of a rule that none has
// written about.
type record struct {
	updated lease.Millis // when the level was moved last
	level   int64        // see [shed.Profile.Next]
	rows    []row        // of workers with requests
}

// row is what one worker lets the others know.
type row struct {
	worker   int64        // [pop.PoP.Number]
	at       lease.Millis // when it was written
	inFlight int64        // requests
	claim    int64        // requests that it has in flight at most before it writes again; inFlight or more
	offered  int64        // requests in 1,000 seconds
	sums     shed.Sums    // of its responses
}

// Words of the record, each of 8 bytes.
const (
	headWords = 2
	rowWords  = 9
)

// words are a row's in the record.
func (w *row) words() [rowWords]*int64 {
	s := &w.sums
	return [...]*int64{&w.worker, (*int64)(&w.at), &w.inFlight, &w.claim, &w.offered, &s.Load, &s.Loads, &s.Failed, &s.Count}
}

// read reads a record into r, whose rows are used again. What cannot be read is as if there were none: it was written by
// another version of the module.
func (r *record) read(raw []byte) {
	*r = record{rows: r.rows[:0]}
	n := len(raw)/8 - headWords
	if len(raw)%8 != 0 || n < 0 || n%rowWords != 0 {
		return
	}
	next := func() int64 {
		v := binary.LittleEndian.Uint64(raw)
		raw = raw[8:]
		return int64(v)
	}
	r.updated, r.level = lease.Millis(next()), next()
	for len(raw) > 0 {
		r.rows = append(r.rows, row{})
		for _, word := range r.rows[len(r.rows)-1].words() {
			*word = next()
		}
	}
}

// append appends the record as it is kept.
func (r *record) append(dst []byte) []byte {
	add := func(word int64) { dst = binary.LittleEndian.AppendUint64(dst, uint64(word)) }
	add(int64(r.updated))
	add(r.level)
	for i := range r.rows {
		for _, word := range r.rows[i].words() {
			add(*word)
		}
	}
	return dst
}

// drop takes the row of a worker out, and those that lasted too long, or are of a later time, which is none. found: there
// was one of the worker.
func (r *record) drop(worker int64, now lease.Millis) (found bool) {
	kept := r.rows[:0]
	for _, w := range r.rows {
		if w.worker == worker {
			found = true
		} else if w.at <= now+rowLasts && now < w.at+rowLasts {
			kept = append(kept, w)
		}
	}
	r.rows = kept
	return found
}

// totals are the sums of rows.
type totals struct {
	inFlight, claims, offered int64
	sums                      shed.Sums
	workers                   int64
}

func (r *record) totals(now lease.Millis) (t totals) {
	for i := range r.rows {
		w := &r.rows[i]
		t.inFlight, t.claims, t.offered, t.workers = t.inFlight+w.inFlight, t.claims+w.claim, t.offered+w.offered, t.workers+1
		if now < w.at+sumsLast {
			t.sums.Load, t.sums.Loads = t.sums.Load+w.sums.Load, t.sums.Loads+w.sums.Loads
			t.sums.Failed, t.sums.Count = t.sums.Failed+w.sums.Failed, t.sums.Count+w.sums.Count
		}
	}
	return t
}

// move moves the level by a utilisation, if that is due.
func (r *record) move(now lease.Millis, s *rule.Shed, utilization int64) {
	r.updated = min(r.updated, now) // no clock of this PoP says later
	if dt := now - r.updated; dt >= moveEvery {
		r.level, r.updated = s.Profile.Next(r.level, int64(dt), utilization), now
	}
}
