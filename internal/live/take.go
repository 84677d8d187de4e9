package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/wire"
)

// ErrFull refuses a report for which there is no room.
var ErrFull = errors.New("report: as much as may be remembered of the reports of one address, or of all, is; look for a holder that makes new ids or very large reports, or raise max_memory")

// RefusedError refuses a report that shows what it may not.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

const (
	// mostRows bounds the holders whose reports are remembered, a row for each worker.
	mostRows = wire.MaxMembers
	// heardFor is how long after its last report a worker counts when a tap is divided.
	heardFor = 10 * time.Second
	// leastPause is the least time between two reports of one worker; one that comes earlier is not shown.
	leastPause = 300 * time.Millisecond
)

// Take takes the report of a holder at this address, which has been checked by itself (see [wire.ReportRequest.Check])
// and may be of this region. The error is [ErrFull], or a [RefusedError].
func (d *Desk) Take(from string, m *wire.ReportRequest) (wire.ReportResponse, error) {
	if err := d.check(m); err != nil {
		return wire.ReportResponse{}, err
	}
	answer := wire.ReportResponse{WatchMs: d.WatchMs()}
	w := d.watching()
	if w == nil {
		return answer, nil
	}
	d.trim(m)
	id := row{worker: m.Worker}
	copy(id.holder[:], m.Holder)
	name := "p" + string(m.Holder) + fmt.Sprint(m.Worker)
	if d.config.Regions { // one of the replicas of a region shows all of it
		id, name = row{region: m.Region}, "r"+m.Region
	}
	heard, err := d.taken.take(from, id, Note{ID: name, Text: m.Append(nil), For: noteTime}, time.Now())
	if err != nil {
		return answer, err
	}
	answer.Keys = w.Keys
	if w.Tap != nil {
		t := *w.Tap
		t.PerSecond = min(max(t.PerSecond/uint32(heard), 1), 1000)
		answer.Tap = &t
	}
	return answer, nil
}

// check refuses a report that shows more than its holder.
func (d *Desk) check(m *wire.ReportRequest) error {
	if !d.config.Regions {
		switch {
		case len(m.Members) != 1 || m.Members[0].Kind != wire.MemberPop:
			return RefusedError("members: a PoP shows one, itself")
		case string(m.Members[0].Holder) != string(m.Holder) || m.Members[0].Worker != m.Worker || m.Members[0].Name != m.Pop:
			return RefusedError("members: a PoP shows itself alone, so holder, worker and name are those of the report")
		}
		m.Members[0].SilentMs, m.Members[0].Workers = 0, 0
		return nil
	}
	for i := range m.Members {
		of := &m.Members[i]
		if of.Kind == wire.MemberAggregator || of.Region != m.Region {
			return RefusedError("members: a region shows its replicas and its PoPs, so the region of all is that of the report")
		}
	}
	return nil
}

// trim leaves out of a report what belongs to no rule in force here, and what a worker may not list.
func (d *Desk) trim(m *wire.ReportRequest) {
	if !d.config.Regions {
		m.Keys, m.Denied = m.Keys[:min(len(m.Keys), listed)], m.Denied[:min(len(m.Denied), listed)]
		m.Members[0].Region = cmp.Or(d.config.Region, m.Members[0].Region)
	}
	known := d.config.Known
	if known == nil {
		return
	}
	m.Keys = slices.DeleteFunc(m.Keys, func(k wire.KeyRate) bool { return !known(k.Rule) })
	m.Denied = slices.DeleteFunc(m.Denied, func(k wire.KeyRate) bool { return !known(k.Rule) })
	m.Rules = slices.DeleteFunc(m.Rules, func(u wire.RuleUse) bool { return !known(u.Rule) })
	m.Decisions = slices.DeleteFunc(m.Decisions, func(one wire.Decision) bool { return !known(one.Rule) })
}

// post puts up the reports that have come since the last time.
func (d *Desk) post(ctx context.Context) {
	if notes := d.taken.due(); len(notes) > 0 {
		d.put(ctx, d.config.Reports, notes...)
	}
}

// row is whose report it is: that of a worker of a holder, or of a region.
type row struct {
	holder [16]byte
	worker uint64
	region string
}

// taken bounds the reports of this replica, for as long as they are on the board. Of the room for all one address has a quarter.
type taken struct {
	maxBytes, maxHolders int

	mu    sync.Mutex
	bytes int
	rows  map[row]*report
	from  map[string]*address
	swept time.Time
	heard int // rows that were heard lately, as of then, and those that came since
}

// report is the last one of a row.
type report struct {
	at   time.Time
	size int
	from *address
	note Note // until it is put up
}

// address is what comes from one.
type address struct {
	name        string
	rows, bytes int
	holders     map[[16]byte]int // rows of each
}

func newTaken(maxBytes, maxHolders int) taken {
	return taken{maxBytes: maxBytes, maxHolders: maxHolders, rows: map[row]*report{}, from: map[string]*address{}}
}

// rowBytes is what a row takes beside its report.
const rowBytes = 512

// take remembers a report until it is put up. heard is how many rows were heard lately, this one included.
func (t *taken) take(from string, id row, n Note, now time.Time) (heard int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) > time.Second {
		t.sweep(now)
	}
	size := len(n.Text) + rowBytes
	r := t.rows[id]
	if r != nil && now.Sub(r.at) < leastPause {
		return max(t.heard, 1), nil
	}
	a := t.from[from]
	if a == nil {
		a = &address{name: from, holders: map[[16]byte]int{}}
	}
	if r != nil && r.from != a { // it calls from elsewhere now
		t.forget(id, r)
		r = nil
	}
	before := 0
	if r != nil {
		before = r.size
	} else if len(t.rows) >= mostRows || a.rows >= mostRows/4 || a.holders[id.holder] == 0 && len(a.holders) >= t.maxHolders {
		return 0, ErrFull
	}
	if more := size - before; t.bytes+more > t.maxBytes || a.bytes+more > t.maxBytes/4 {
		return 0, ErrFull
	}
	if r == nil {
		r = &report{from: a}
		t.rows[id], t.from[from] = r, a
		a.rows++
		t.heard++
		a.holders[id.holder]++
	}
	t.bytes, a.bytes = t.bytes+size-before, a.bytes+size-before
	r.at, r.size, r.note = now, size, n
	return max(t.heard, 1), nil
}

// due are the notes that are not put up yet.
func (t *taken) due() (notes []Note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		if r.note.ID != "" {
			notes = append(notes, r.note)
			r.note = Note{}
		}
	}
	return notes
}

// sweep forgets whose note is over by now.
func (t *taken) sweep(now time.Time) {
	t.swept, t.heard = now, 0
	for id, r := range t.rows {
		switch silent := now.Sub(r.at); {
		case silent >= noteTime:
			t.forget(id, r)
		case silent < heardFor:
			t.heard++
		}
	}
}

func (t *taken) forget(id row, r *report) {
	delete(t.rows, id)
	t.bytes -= r.size
	r.from.bytes -= r.size
	r.from.rows--
	if r.from.holders[id.holder]--; r.from.holders[id.holder] == 0 {
		delete(r.from.holders, id.holder)
	}
	if r.from.rows == 0 {
		delete(t.from, r.from.name)
	}
}

// forgetAll forgets all: nobody watches any more.
func (t *taken) forgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) > 0 {
		clear(t.rows)
		clear(t.from)
		t.bytes, t.heard = 0, 0
	}
}
