package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/wire"
)

const (
	// turnEvery is how often a collector reads what is watched, and shows its own process; half as long is
	// how long a report waits at most before all replicas see it.
	turnEvery = time.Second
	// viewerTime is how long a watch lasts that its viewer does not renew.
	viewerTime = 5 * time.Second
	// notesTime bounds one use of notes.
	notesTime = time.Second
)

// Aggregator may watch the region. It is safe for concurrent use.
type Aggregator interface {
	// Watched is for how long from now somebody watches there, by its answers to other calls; 0: nobody.
	Watched() time.Duration
	// Report shows it the region. The holder, its protocol and the region are filled in.
	Report(ctx context.Context, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error)
}

// Config is what a collector is made of.
type Config struct {
	Reports, Watches Notes
	// History keeps what reports said in the past; nil: nothing does.
	History Notes
	// Regions is set if those that report are regions: the collector is that of an aggregator.
	Regions bool
	// Region is the name of the own region; empty: it has none.
	Region string
	// Self is how the own process does. It is called once a second while somebody watches.
	Self func() *quotav1.Member
	// Expected are the names of regions that should show themselves; nil: none.
	Expected func() []string
	// Known reports whether a rule is in force; what is shown of others is left out. nil: all are.
	Known func(rule string) bool
	// PerSecond is how many units a second a rule lets pass of a key, by the limit that counts for it; override is its
	// name. 0: that cannot be said. nil: never.
	PerSecond func(rule, override string, key []byte) float64
	// Aggregator is that of the region; nil: there is none.
	Aggregator Aggregator
	// MaxBytes bounds the reports that are remembered, of which one address has a quarter; 0: 32 MiB.
	MaxBytes int64
	Log      *slog.Logger // nil: nothing is logged
}

// Collector takes reports and shows them. Create it with [New]; [Collector.Run] has to run beside it. It is safe for concurrent
// use.
type Collector struct {
	config Config
	id     string // of this replica in the notes
	taken  taken
	watch  atomic.Pointer[watch] // nil: nobody watches
	failed repeat.OncePerMinute  // was logged: the notes were unavailable
	down   repeat.OncePerMinute  // was logged: the aggregator took no report

	mu            sync.Mutex
	viewers       map[*viewer]time.Time // until when
	aggregatorTap *quotav1.Tap          // what the aggregator taps, by its last answer; nil: nothing

	viewing sync.Mutex       // is held while a view is made
	view    *View            // the last one
	away    error            // why there is none
	made    time.Time        // when one, or none, was made
	passed  map[string]int64 // notes whose decisions the aggregator has, by ID: when they came; belongs to Run

	record record
}

// watch is that somebody watches in the tier.
type watch struct {
	since, until time.Time    // when it was first seen, without a break
	tap          *quotav1.Tap // PerSecond of all holders together; nil: nobody taps
}

// viewer is one who watches.
type viewer struct{ tap *quotav1.Tap }

// New makes the collector of a replica that has just started.
func New(c Config) *Collector {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Collector{
		config: c, id: rand.Text(), viewers: map[*viewer]time.Time{},
		taken: taken{inFlight: membudget.NewInFlight[any](cmp.Or(c.MaxBytes, 32<<20)), rows: map[string]*report{}},
	}
}

// Run does what is to be done once a second, until ctx ends.
func (d *Collector) Run(ctx context.Context) error {
	for odd := false; repeat.Sleep(ctx, repeat.Jittered(turnEvery/2)); odd = !odd { // the store that is shared comes up first
		if notes := d.taken.due(time.Now()); len(notes) > 0 {
			d.put(ctx, d.config.Reports, notes...)
		}
		if !odd {
			d.turn(ctx)
			d.recordReports(ctx)
		}
	}
	return nil
}

// turn renews what is watched here, reads what is watched anywhere, and shows this process.
func (d *Collector) turn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*notesTime)
	defer cancel()
	d.renew(ctx)
	first := d.learn(ctx)
	w := d.watching()
	if w == nil {
		return
	}
	if d.config.Self != nil {
		own := &quotav1.ReportRequest{Members: []*quotav1.Member{d.config.Self()}}
		d.put(ctx, d.config.Reports, Note{ID: "s" + d.id, Text: encode(own), For: noteTime})
	}
	if first && d.config.Aggregator != nil && d.config.Aggregator.Watched() > 0 {
		d.passUp(ctx)
	}
}

// Begin has members report, and show the decisions that tap asks for, of all holders together PerSecond, nil: none. It
// does until the end is called, or for viewerTime after the last call of renew.
func (d *Collector) Begin(ctx context.Context, tap *quotav1.Tap) (renew, end func()) {
	who := &viewer{tap}
	renew = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.viewers[who] = time.Now().Add(viewerTime)
	}
	renew()
	d.renew(ctx)
	d.learn(ctx)
	return renew, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.viewers, who)
	}
}

// renew puts up that somebody watches at this replica, or at the aggregator.
func (d *Collector) renew(ctx context.Context) {
	n := Note{ID: "v" + d.id, For: viewerTime}
	d.mu.Lock()
	now := time.Now()
	maps.DeleteFunc(d.viewers, func(_ *viewer, until time.Time) bool { return !until.After(now) })
	var tap *quotav1.Tap
	for who := range d.viewers {
		tap = join(tap, who.tap)
	}
	some := len(d.viewers) > 0
	if d.config.Aggregator != nil && d.config.Aggregator.Watched() > 0 {
		n.ID, tap, some = upNote+d.id, join(tap, d.aggregatorTap), true
	}
	d.mu.Unlock()
	var notes []Note
	if some {
		n.Text = encode(&quotav1.ReportResponse{Protocol: wire.Protocol, Tap: tap})
		notes = append(notes, n)
	}
	if d.config.History != nil {
		notes = append(notes, Note{ID: recordNote + d.id, For: viewerTime}) // without a text: nobody watches by it
	}
	if len(notes) > 0 {
		d.put(ctx, d.config.Watches, notes...)
	}
}

const (
	// upNote begins the names of the notes of replicas that can show the region to the aggregator.
	upNote = "u"
	// recordNote begins the names of the notes of replicas that can record the history.
	recordNote = "h"
)

// learn reads what is watched. first reports whether of the replicas that can show the region to the aggregator this
// one is to do so.
func (d *Collector) learn(ctx context.Context) (first bool) {
	bounded, cancel := context.WithTimeout(ctx, notesTime)
	defer cancel()
	notes, now, err := d.config.Watches.All(bounded)
	if err != nil {
		d.note(ctx, err)
		return false // what was watched is until its time is over
	}
	w := watch{since: time.Now()}
	if before := d.watching(); before != nil {
		w.since = before.since
	}
	for _, n := range notes {
		one := new(quotav1.ReportResponse)
		if proto.Unmarshal(n.Text, one) != nil || !wire.Supported(one.Protocol) {
			continue
		}
		if until := time.Now().Add(n.Left(now)); until.After(w.until) {
			w.until = until
		}
		w.tap = join(w.tap, one.Tap)
	}
	d.watch.Store(&w)
	d.record.mine.Store(d.first(notes, recordNote))
	return d.first(notes, upNote)
}

// first reports whether of the replicas with a note whose name begins so this one is to act for all: its name is the least.
func (d *Collector) first(notes []Note, begin string) bool {
	least := ""
	for _, n := range notes {
		if strings.HasPrefix(n.ID, begin) && (least == "" || n.ID < least) {
			least = n.ID
		}
	}
	return least == begin+d.id
}

// watching is what is watched; nil: nothing.
func (d *Collector) watching() *watch {
	w := d.watch.Load()
	if w == nil || !w.until.After(time.Now()) {
		return nil
	}
	return w
}

// WatchMs is for how many milliseconds from now somebody watches, as holders are told; 0: nobody does.
func (d *Collector) WatchMs() uint32 {
	w := d.watching()
	if w == nil {
		return 0
	}
	return uint32(min(max(time.Until(w.until).Milliseconds(), 0), wire.LongestWatch))
}

// put puts one note up. It may be lost.
func (d *Collector) put(ctx context.Context, b Notes, notes ...Note) {
	bounded, cancel := context.WithTimeout(ctx, notesTime)
	defer cancel()
	if err := b.Put(bounded, notes); err != nil {
		d.note(ctx, err)
	}
}

// note logs that notes are unavailable.
func (d *Collector) note(ctx context.Context, err error) {
	if ctx.Err() == nil && d.failed.Now() {
		d.config.Log.Warn("cannot share live reports with the other replicas: the store rejects them", "error", err)
	}
}

// join is what two taps ask for, and maybe more; nil: nothing.
func join(a, b *quotav1.Tap) *quotav1.Tap {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	both := &quotav1.Tap{PerSecond: max(a.PerSecond, b.PerSecond)}
	if a.Rule == b.Rule {
		both.Rule = a.Rule
	}
	if slices.Equal(a.Key, b.Key) {
		both.Key = a.Key
	}
	if a.Outcome == b.Outcome {
		both.Outcome = a.Outcome
	}
	if a.Rule != b.Rule || !slices.Equal(a.Key, b.Key) || a.Outcome != b.Outcome {
		both.PerSecond = wire.MaxDecisions // chance picks among more than each of them wants
	}
	return both
}
