package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// counted is a store of notes that counts how often it is used.
type counted struct {
	live.Memory
	puts, reads atomic.Int64
	down        atomic.Bool
}

var errDown = errors.New("the notes are unavailable")

func (c *counted) Put(ctx context.Context, notes []live.Note) error {
	c.puts.Add(1)
	if c.down.Load() {
		return errDown
	}
	return c.Memory.Put(ctx, notes)
}

func (c *counted) All(ctx context.Context) ([]live.Note, int64, error) {
	c.reads.Add(1)
	if c.down.Load() {
		return nil, 0, errDown
	}
	return c.Memory.All(ctx)
}

// tier is the replicas of a tier, which share their notes.
type tier struct {
	reports, watches counted
	collectors       []*live.Collector
}

// start runs so many replicas until the end of the test's bubble.
func start(t *testing.T, replicas int, c live.Config) *tier {
	t.Helper()
	s := new(tier)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for i := range replicas {
		c := c
		c.Reports, c.Watches = &s.reports, &s.watches
		kind := quotav1.MemberKind_MEMBER_KIND_REGION
		if c.Regions {
			kind = quotav1.MemberKind_MEMBER_KIND_AGGREGATOR
		}
		c.Self = func() *quotav1.Member {
			return &quotav1.Member{Kind: kind, Region: c.Region, Name: fmt.Sprint("replica", i), Holder: []byte(fmt.Sprintf("%-16d", i))}
		}
		d := live.New(c)
		s.collectors = append(s.collectors, d)
		running.Go(func() { _ = d.Run(ctx) })
	}
	return s
}

// report is that of a worker of a PoP.
func report(pop string, worker uint64) *quotav1.ReportRequest {
	holder := []byte(fmt.Sprintf("%-16s", pop))[:16]
	return &quotav1.ReportRequest{
		Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: worker, Pop: pop,
		Members: []*quotav1.Member{{Keys: 10, Places: 100, RulesVersion: "new", RulesRevision: 2}},
	}
}

func take(t *testing.T, d *live.Collector, m *quotav1.ReportRequest) *quotav1.ReportResponse {
	t.Helper()
	return fatal.Get(d.Take("192.0.2.1", m))(t)
}

func see(t *testing.T, d *live.Collector) *live.View {
	t.Helper()
	return fatal.Get(d.See(t.Context()))(t)
}

// While nobody watches, a replica reads one kind of notes once a second, whatever comes, and nothing is kept.
func TestNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, 1, live.Config{})
		time.Sleep(time.Minute)
		for range 1000 {
			if ms := s.collectors[0].WatchMs(); ms != 0 {
				t.Fatalf("%d ms", ms)
			}
			if a := take(t, s.collectors[0], report("fra1", 1)); a.WatchMs != 0 || a.Tap != nil {
				t.Fatalf("%+v", a)
			}
		}
		if n := s.watches.reads.Load(); n < 50 || n > 70 {
			t.Errorf("read %d times in a minute", n)
		}
		if n := s.watches.puts.Load() + s.reports.puts.Load() + s.reports.reads.Load(); n != 0 {
			t.Errorf("%d other uses", n)
		}
	})
}

// What is watched at one replica is watched at all, until its viewer has gone or is not heard any more.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, 2, live.Config{Region: "eu"})
		time.Sleep(time.Second)
		renew, end := s.collectors[0].Begin(t.Context(), nil)
		if ms := s.collectors[0].WatchMs(); ms < 4000 || ms > 5000 {
			t.Errorf("at once %d ms", ms)
		}
		for range 30 {
			time.Sleep(time.Second)
			renew()
			if time.Sleep(200 * time.Millisecond); s.collectors[1].WatchMs() == 0 {
				t.Fatal("the other replica does not know")
			}
		}
		a := take(t, s.collectors[1], report("fra1", 1))
		if a.WatchMs == 0 || a.Tap != nil {
			t.Errorf("%+v", a)
		}
		time.Sleep(2 * time.Second)
		if v := see(t, s.collectors[0]); v.Watched < 25*time.Second || v.Missing != nil || fmt.Sprint(names(v)) != "[replica0 replica1 fra1]" {
			t.Errorf("%+v", v)
		}
		end()
		time.Sleep(10 * time.Second)
		if a, b := s.collectors[0].WatchMs(), s.collectors[1].WatchMs(); a != 0 || b != 0 {
			t.Errorf("after the end: %d, %d ms", a, b)
		}
		s.collectors[0].Begin(t.Context(), nil)
		time.Sleep(10 * time.Second)
		if ms := s.collectors[0].WatchMs(); ms != 0 {
			t.Errorf("of a viewer that is gone: %d ms", ms)
		}
	})
}

// Two who tap are shown what both want; a tap is divided among those who report.
func TestTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, 1, live.Config{}).collectors[0]
		login := &quotav1.Tap{Rule: "login", Key: []byte("ann"), Outcome: quotav1.Outcome_OUTCOME_DENIED, PerSecond: 100}
		renew, _ := d.Begin(t.Context(), login)
		var a *quotav1.ReportResponse
		for range 2 { // the second time all are known
			for w := range uint64(4) {
				a = take(t, d, report("fra1", w))
			}
			time.Sleep(2 * time.Second)
			renew()
		}
		if a.Tap == nil || a.Tap.Rule != "login" || string(a.Tap.Key) != "ann" || a.Tap.Outcome != quotav1.Outcome_OUTCOME_DENIED || a.Tap.PerSecond != 25 {
			t.Errorf("%+v", a.Tap)
		}
		_, other := d.Begin(t.Context(), &quotav1.Tap{Rule: "login", Outcome: quotav1.Outcome_OUTCOME_ADMITTED, PerSecond: 10})
		if a = take(t, d, report("fra1", 1)); a.Tap == nil || a.Tap.Rule != "login" || len(a.Tap.Key) != 0 || a.Tap.Outcome != 0 || a.Tap.PerSecond != 250 {
			t.Errorf("%+v", a.Tap)
		}
		other()

		m := report("fra1", 2)
		for i := range 200 {
			m.Decisions = append(m.Decisions, &quotav1.Decision{Rule: "login@1d", Key: []byte("ann"), Outcome: quotav1.Outcome_OUTCOME_DENIED, AgeMs: uint64(200 - i)})
		}
		m.Decisions = append(m.Decisions, &quotav1.Decision{Rule: "other", Key: []byte("ann"), Outcome: quotav1.Outcome_OUTCOME_DENIED},
			&quotav1.Decision{Rule: "login", Key: []byte("bob"), Outcome: quotav1.Outcome_OUTCOME_DENIED}, &quotav1.Decision{Rule: "login", Key: []byte("ann"), Outcome: quotav1.Outcome_OUTCOME_ADMITTED})
		renew()
		take(t, d, m)
		time.Sleep(time.Second)
		v := see(t, d)
		found, seen := v.Decisions(login, nil)
		if len(found) != 100 || found[0].Rule != "login@1d" || found[0].Of != "fra1" || found[0].AgeMs < found[99].AgeMs || found[0].AgeMs > 2000 {
			t.Errorf("%d: %+v", len(found), found[:min(len(found), 1)])
		}
		if again, _ := v.Decisions(login, seen); len(again) != 0 {
			t.Errorf("%d again", len(again))
		}
	})
}

// Counts of the same key are added, with their errors; what a rule did is summed, and compared with the limit.
func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, 1, live.Config{PerSecond: func(rule, override string, key []byte) float64 {
			return map[string]float64{"login  ann": 10, "login gold ann": 100}[rule+" "+override+" "+string(key)]
		}}).collectors[0]
		renew, _ := d.Begin(t.Context(), nil)
		for round := range uint64(4) {
			for i, pop := range []string{"fra1", "fra2"} {
				m := report(pop, uint64(i))
				m.Keys = []*quotav1.KeyRate{{Rule: "login", Key: []byte("ann"), Count: 4000, Over: 1000}, {Rule: "login", Override: "gold", Key: []byte("ann"), Count: 2000}}
				m.Denied = []*quotav1.KeyRate{{Rule: "login", Key: []byte(pop), Count: 1000 * uint64(i+1)}}
				m.Rules = []*quotav1.RuleUse{{Rule: "login", Matched: 1000 + 20*round, NoKey: 3, Admitted: 1000 + 20*round, Denied: 10 * round, AdmittedRate: 10_500, DeniedRate: 5000}}
				take(t, d, m)
			}
			time.Sleep(2 * time.Second)
			see(t, d)
			renew()
		}
		v := see(t, d)
		if k := v.Busiest; len(k) != 2 || string(k[0].Key) != "ann" || k[0].PerSecond() != 8 || k[0].OverPerSecond() != 2 || k[1].Override != "gold" || k[1].PerSecond() != 4 {
			t.Errorf("%+v", k)
		}
		if k := v.Denied; len(k) != 2 || string(k[0].Key) != "fra2" || k[0].PerSecond() != 2 || k[0].Of != "" {
			t.Errorf("%+v", k)
		}
		if k := v.ByPoP(false); len(k) != 4 || k[0].PerSecond() != 4 || k[0].Of != "fra1" || k[1].Of != "fra2" {
			t.Errorf("%+v", k)
		}
		if k := v.ByPoP(true); len(k) != 2 || k[0].Of != "fra2" {
			t.Errorf("%+v", k)
		}
		u := v.Rules[0]
		if len(v.Rules) != 1 || u.Matched != 2120 || u.NoKey != 6 || u.Denied != 60 || u.AdmittedRate != 21_000 || u.DeniedRate != 10_000 || u.Used != 0.6 {
			t.Errorf("%+v", v.Rules)
		}
		if time.Sleep(4 * time.Second); len(see(t, d).Busiest) != 0 || len(see(t, d).Members) != 3 || see(t, d).Rules[0].AdmittedRate != 0 || see(t, d).Rules[0].Admitted != 2120 {
			t.Errorf("of a missing region: %+v", see(t, d))
		}
	})
}

// The workers of a PoP are one row, with the rules of the one that is behind. What a worker that is not heard reported
// before counts only where no other worker is heard.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, 1, live.Config{}).collectors[0]
		d.Begin(t.Context(), nil)
		for w := range uint64(8) {
			m := report("fra1", w)
			if w == 5 {
				of := m.Members[0]
				of.RulesVersion, of.RulesRevision, of.DegradedMs, of.Error = "old", 1, 700, "no call can be made"
			}
			take(t, d, m)
		}
		time.Sleep(time.Second)
		v := see(t, d)
		m := v.Members[len(v.Members)-1]
		if len(v.Members) != 2 || m.Name != "fra1" || m.Workers != 8 || m.Keys != 80 || m.Places != 800 || m.RulesVersion != "old" || m.RulesRevision != 1 || m.DegradedMs != 700 || m.Error == "" {
			t.Errorf("%+v", v.Members)
		}
		time.Sleep(4 * time.Second)
		take(t, d, report("fra1", 7))
		time.Sleep(time.Second)
		v = see(t, d)
		if m := v.Members[len(v.Members)-1]; m.Workers != 8 || m.Keys != 80 || m.RulesVersion != "new" || m.DegradedMs != 0 || m.Error != "" {
			t.Errorf("one worker is heard, and the others were: %+v", m)
		}
	})
}

// A store that comes up with its tier is no problem, and one that does not is told once.
func TestNotesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		notes := new(counted)
		notes.down.Store(true)
		d := live.New(live.Config{Reports: notes, Watches: notes, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		for _, down := range []bool{false, true} {
			time.Sleep(100 * time.Millisecond)
			notes.down.Store(down)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if n := strings.Count(log.String(), "\n"); n > 1 || (n == 1) != down {
				t.Errorf("down: %t: %s", down, &log)
			}
		}
		cancel()
		running.Wait()
	})
}

// hung is a store of notes that never answers.
type hung struct{ live.Memory }

func (*hung) All(ctx context.Context) ([]live.Note, int64, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

// Of many who look while the store hangs, none waits for the others, and who has gone leaves no error to them.
func TestNotesHang(t *testing.T) {
	d := live.New(live.Config{Reports: new(hung), Watches: new(live.Memory)})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.See(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	began := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if v, err := d.See(t.Context()); v != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
