package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live/history"
	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// recordEvery is how often the replica that records the history folds reports into it. A report with keys lasts for 10 s.
	recordEvery = 5 * time.Second
	// historyTime is for how long a history that was read is shown.
	historyTime = 10 * time.Second
	// historyNotesTime bounds one use of the notes of the history.
	historyNotesTime = 5 * time.Second
)

// ErrNoHistory is why an aggregator has no history: its regions have.
var ErrNoHistory = errors.New("history: regions keep it, and not the aggregator; ask a region")

// record is the history: what this replica records, and what it has read.
type record struct {
	mine   atomic.Bool          // this replica records
	failed repeat.OncePerMinute // was logged: the history cannot be stored, or be read

	history *history.History // nil: another replica records. It belongs to Run
	next    time.Time        // when reports are folded again; likewise

	mu     sync.Mutex
	read   *history.History // the last one
	readOf int64            // when it was that, in milliseconds by the clock of the notes
	away   error            // why there is none
	readAt time.Time        // when one, or none, was read
}

// recordReports folds all reports into the history if this replica is to, and stores what has changed. At first it goes on from
// what the replica before stored.
func (d *Collector) recordReports(ctx context.Context) {
	r := &d.record
	switch {
	case !r.mine.Load():
		r.history = nil
		return
	case time.Now().Before(r.next):
		return
	case time.Since(r.next) > viewerTime: // this process hung, and another replica has recorded meanwhile
		r.history = nil
	}
	r.next = time.Now().Add(recordEvery)
	bounded, cancel := context.WithTimeout(ctx, historyNotesTime)
	defer cancel()
	if err := d.fold(bounded); err != nil && ctx.Err() == nil && r.failed.Now() {
		d.config.Log.Warn("cannot record the history of decisions: the store rejects it; after a minute the history has a gap", "error", err)
	}
}

func (d *Collector) fold(ctx context.Context) error {
	notes, now, err := d.config.Reports.All(ctx)
	if err != nil {
		return err
	}
	r := &d.record
	if r.history == nil {
		if r.history, _, err = d.load(ctx); err != nil {
			return err
		}
	}
	reports := make([]history.Report, 0, len(notes))
	for _, n := range notes {
		if m := new(quotav1.ReportRequest); n.ID != "" && n.ID[0] == 'p' && proto.Unmarshal(n.Text, m) == nil {
			reports = append(reports, history.Report{ID: n.ID, At: n.At, ReportRequest: m})
		}
	}
	r.history.Fold(now, reports)
	var changed []Note
	for id, text := range r.history.Changed() {
		changed = append(changed, Note{ID: id, Text: text, For: LongestNote})
	}
	if err = d.config.History.Put(ctx, changed); err != nil {
		r.history = nil // the next one goes on from what is stored
	}
	return err
}

// load reads what is stored, and what time it is.
func (d *Collector) load(ctx context.Context) (*history.History, int64, error) {
	notes, now, err := d.config.History.All(ctx)
	if err != nil {
		return nil, 0, err
	}
	texts := make([][]byte, len(notes))
	for i, n := range notes {
		texts[i] = n.Text
	}
	h, err := history.Load(texts)
	if err != nil && d.record.failed.Now() {
		d.config.Log.Warn("parts of the history of decisions cannot be read and are left out", "error", err)
	}
	return h, now, nil
}

// History returns the history that all replicas share, at most 10 s old, and the time that it was read at, in milliseconds since
// 1970. Nothing changes it. The error is [ErrNoHistory], or says why it cannot be read.
func (d *Collector) History(ctx context.Context) (*history.History, int64, error) {
	r := &d.record
	if d.config.History == nil {
		return nil, 0, ErrNoHistory
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.readAt) < historyTime {
		return r.read, r.readOf, r.away
	}
	bounded, cancel := context.WithTimeout(ctx, historyNotesTime)
	defer cancel()
	h, now, err := d.load(bounded)
	if ctx.Err() != nil { // this caller alone has gone
		return nil, 0, ctx.Err()
	}
	if r.read, r.readOf, r.away, r.readAt = h, now, nil, time.Now(); err != nil {
		r.away = fmt.Errorf("history: the store that the replicas share does not answer: %w", err)
	}
	return r.read, r.readOf, r.away
}
