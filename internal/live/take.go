package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/wire"
)

// ErrFull rejects a report for which there is no room.
var ErrFull = errors.New("report: the reports of this address, or of all addresses, fill the memory for reports; look for a holder that makes new ids or very large reports, or raise max_memory")

// leastSize is what a report counts as at least, in bytes. It bounds the rows, too.
const leastSize = 4 << 10

// Take takes a report of a holder at this address, which may be anything that can be compared. The error is [ErrFull], or
// says what is out of its bounds.
func (d *Collector) Take(from any, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	answer := &quotav1.ReportResponse{WatchMs: d.WatchMs()}
	w := d.watching()
	if w == nil && d.config.History == nil {
		return answer, nil
	}
	d.trim(m)
	n := Note{ID: fmt.Sprintf("p%x %d", m.Holder, m.Worker), Text: encode(m), For: noteTime}
	if d.config.Regions {
		n.ID = "r" + m.Region // one of its replicas shows all of it
	}
	rows, err := d.taken.take(from, n, time.Now())
	if err != nil {
		return nil, err
	}
	if w != nil && w.tap != nil {
		t := w.tap
		answer.Tap = &quotav1.Tap{Rule: t.Rule, Key: t.Key, Outcome: t.Outcome, PerSecond: min(max(t.PerSecond/uint32(rows), 1), wire.MaxDecisions)}
	}
	return answer, nil
}

// trim makes all that a report shows that of its holder, and leaves out what belongs to no rule in force here.
func (d *Collector) trim(m *quotav1.ReportRequest) {
	if d.config.Regions {
		m.Members = slices.DeleteFunc(m.Members, func(of *quotav1.Member) bool { return of.Kind != pop && of.Kind != region })
		for _, of := range m.Members {
			of.Region = m.Region
		}
	} else {
		own := new(quotav1.Member)
		if len(m.Members) > 0 {
			own = m.Members[0]
		}
		own.Kind, own.Region, own.Name = pop, cmp.Or(d.config.Region, m.Region), m.Pop
		own.Holder, own.Worker, own.Workers, own.LastReportMs = m.Holder, m.Worker, 1, 0
		m.Members = []*quotav1.Member{own}
	}
	m.Keys, m.Denied = inForce(d, m.Keys), inForce(d, m.Denied)
	m.Rules, m.Decisions = inForce(d, m.Rules), inForce(d, m.Decisions)
	m.Trials = inForce(d, m.Trials)
}

const (
	pop    = quotav1.MemberKind_MEMBER_KIND_POP
	region = quotav1.MemberKind_MEMBER_KIND_REGION
)

// inForce is what belongs to rules in force.
func inForce[M interface{ GetRule() string }](d *Collector, list []M) []M {
	if d.config.Known == nil {
		return list
	}
	return slices.DeleteFunc(list, func(m M) bool { return !d.config.Known(m.GetRule()) })
}

// encode is the encoded form of a message whose texts are UTF-8.
func encode(m proto.Message) []byte {
	text, _ := proto.Marshal(m)
	return text
}

// taken are the reports of this replica for as long as they are in the notes. Of the room for all one address has a
// quarter.
type taken struct {
	inFlight *membudget.InFlight[any] // by address

	mu   sync.Mutex
	rows map[string]*report // by the name of their note
}

// report is the last one of a worker, or of a region.
type report struct {
	at   time.Time
	from any
	size int64 // of the largest one
	note Note  // until it is put up
}

// take remembers a report until it is put up, and returns how many there are.
func (t *taken) take(from any, n Note, now time.Time) (rows int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[n.ID]
	if r == nil {
		r = &report{from: from}
	}
	if more := int64(max(len(n.Text), leastSize)) - r.size; more > 0 {
		if !t.inFlight.Take(from, more) {
			return 0, ErrFull
		}
		r.size += more
	}
	r.at, r.note = now, n
	t.rows[n.ID] = r
	return len(t.rows), nil
}

// due are the notes that are not put up yet. It forgets whose note is over by now.
func (t *taken) due(now time.Time) (notes []Note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.rows {
		switch {
		case now.Sub(r.at) >= noteTime:
			delete(t.rows, id)
			t.inFlight.Give(r.from, r.size)
		case r.note.ID != "":
			notes = append(notes, r.note)
			r.note = Note{}
		}
	}
	return notes
}
