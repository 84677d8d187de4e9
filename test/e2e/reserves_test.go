package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// reservesRules are rules of two regions with weights. Windows are longer than a region renounces ahead.
func reservesRules(eu, us int, spec string) string {
	return fmt.Sprintf("regions: { eu: %d, us: %d }\nrules:\n  - { name: shared, key: [ { header: x-key } ], limit: %s, scope: global }\n", eu, us, spec)
}

const windows = "600/4s, algorithm: fixed_window, consistency: exact"

var windowSpec = limit.Spec{Algorithm: limit.FixedWindow, Count: 600, Period: 4 * limit.Second}

// reserves is an aggregator and two regions.
type reserves struct {
	t          *testing.T
	aggregator *region.Region
	eu, us     *speaker
}

func startReserves(t *testing.T, name, rules string, spec limit.Spec, flags ...string) *reserves {
	t.Helper()
	dir := proc.LogDir(t)
	w := &reserves{t: t, aggregator: region.New(t, region.Config{Dir: dir, Name: name, Rules: rules, Program: "weir-global", Flags: flags})}
	w.aggregator.Start()
	w.eu, w.us = newSpeaker(t, "eu", w.aggregator.Addr, spec), newSpeaker(t, "us", w.aggregator.Addr, spec)
	w.awaitConnected()
	return w
}

func (w *reserves) awaitConnected() {
	w.t.Helper()
	for _, r := range []*speaker{w.eu, w.us} {
		proc.Eventually(w.t, time.Minute, r.name+" is answered", func() bool { return r.connected(time.Second) })
	}
}

// play is what was spent, by window. full are the windows in which both regions demanded all of the limit in time.
type play struct {
	spent map[limit.Micros]int64
	full  []limit.Micros
}

// check demands that no window has more than its limit, and that the full ones have it.
func (p *play) check(t *testing.T, w *reserves) {
	t.Helper()
	t.Log(p.spent)
	for begin, units := range p.spent {
		if units > 600 {
			t.Errorf("%d of 600 units in the window that began at %d:\n%s\n%s", units, begin, w.eu.describe(), w.us.describe())
		}
	}
	for _, begin := range p.full {
		if p.spent[begin] < 598 { // shares are rounded down
			t.Errorf("%d of 600 units in the window that began at %d:\n%s\n%s", p.spent[begin], begin, w.eu.describe(), w.us.describe())
		}
	}
}

// rounds lets both regions spend all that they get in so many windows, early and late. One that this machine is too slow for is
// played once more.
func (w *reserves) rounds(n int, p *play) {
	w.t.Helper()
	for late := 0; n > 0; n-- {
		begin := w.us.awaitWindow(0.3)
		w.us.spend("k", p.spent)
		w.eu.spend("k", p.spent)
		time.Sleep(1600 * time.Millisecond)
		w.eu.spend("k", p.spent)
		w.us.spend("k", p.spent)
		if w.us.window.Begin(microsNow()) == begin {
			p.full = append(p.full, begin)
			continue
		}
		if late++; late > 5 {
			w.t.Fatal("this machine takes longer than a window")
		}
		n++
	}
}

func newPlay() *play { return &play{spent: map[limit.Micros]int64{}} }

// The weights of regions change while one of them is cut off: it goes on with the share that it knows, and nobody else
// has that. A call with the epoch of another store changes nothing, and a window that begins at the end of the
// outage has all of its limit.
func TestWeightsChangeWhileARegionIsCutOff(t *testing.T) {
	t.Parallel()
	w := startReserves(t, "weights", reservesRules(1, 1, windows), windowSpec, "--state", filepath.Join(t.TempDir(), "state"))
	p := newPlay()
	w.rounds(1, p)
	w.eu.setCut(true)
	w.us.awaitWindow(0)
	w.aggregator.SetRules(reservesRules(1, 5, windows))
	w.us.mu.Lock()
	w.us.call(func(m *wire.Request) { m.Epoch, m.Ack = 99, 1 })
	w.us.mu.Unlock()
	w.rounds(2, p)
	w.eu.setCut(false)
	w.awaitConnected()
	w.rounds(3, p)
	p.check(t, w)
}

// All regions are cut off when a window begins, and are connected again in it: each has its share, and together they have
// the limit.
func TestWindowThatBeginsAtTheEndOfAnOutage(t *testing.T) {
	t.Parallel()
	w := startReserves(t, "window", reservesRules(1, 2, windows), windowSpec, "--state", "off")
	p := newPlay()
	for late := 0; len(p.full) < 2; late++ {
		w.eu.setCut(true)
		w.us.setCut(true)
		w.us.awaitWindow(0)
		begin := w.us.awaitWindow(0.1) // the one before was renounced
		w.us.spend("k", p.spent)
		w.eu.setCut(false)
		w.us.setCut(false)
		w.awaitConnected()
		w.eu.spend("k", p.spent)
		w.us.spend("k", p.spent)
		if w.us.window.Begin(microsNow()) == begin {
			p.full = append(p.full, begin)
		} else if late > 5 {
			t.Fatal("this machine takes longer than a window")
		}
	}
	p.check(t, w)
}

// A link that breaks again and again adds nothing to the burst and the rate of a bucket.
func TestBucketOfAFlappingLink(t *testing.T) {
	t.Parallel()
	w := startReserves(t, "bucket", reservesRules(1, 1, "{ count: 600, per: 6s, burst: 300 }"), limit.Spec{Count: 600, Period: 6 * limit.Second, Burst: 300}, "--state", "off")
	spent := map[limit.Micros]int64{}
	began := time.Now()
	for n := range 96 {
		w.eu.setCut(n%32 < 22) // for longer than a region renounces ahead
		w.us.spend("k", spent)
		w.eu.spend("k", spent)
		time.Sleep(300 * time.Millisecond)
	}
	most := 300 + 100*time.Since(began).Seconds()
	if got := float64(spent[0]); got > most || got < most*6/10 {
		t.Errorf("%.0f units, the bucket has %.0f:\n%s", got, most, w.eu.describe())
	} else {
		t.Logf("%.0f of %.0f units", got, most)
	}
}

// The clock of the aggregators' Redis is set back ten minutes, and one of them starts again: they decide nothing and say
// so, and regions go on by their reserves. When the clock is right again all is as before.
func TestClockOfTheAggregatorsIsSetBack(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	redis := redistest.StartWith(t, clock.Option())
	w := startReserves(t, "clock", reservesRules(1, 2, windows), windowSpec, "--redis", redis.Addr)
	other := region.New(t, region.Config{Dir: proc.LogDir(t), Name: "clock2", Rules: reservesRules(1, 2, windows), Program: "weir-global", Flags: []string{"--redis", redis.Addr}})
	other.Start()
	w.eu.addr = other.Addr
	p := newPlay()
	w.rounds(1, p)
	clock.Set(-10 * time.Minute)
	other.Kill()
	other.Begin()
	for _, a := range []*region.Region{w.aggregator, other} {
		proc.Eventually(t, time.Minute, a.Name+" does not decide", func() bool { return !healthy(a, "clock of the store") })
	}
	w.us.awaitWindow(0)
	w.rounds(2, p)
	clock.Set(0)
	for _, a := range []*region.Region{w.aggregator, other} {
		proc.Eventually(t, time.Minute, a.Name+" decides", func() bool { return healthy(a, "") })
	}
	w.awaitConnected()
	w.rounds(1, p)
	p.check(t, w)
}

// healthy reports whether the port that regions call says so; not healthy is it for this reason.
func healthy(a *region.Region, reason string) bool {
	resp, err := a.HTTP.Get("http://" + a.Addr + "/healthz")
	if err != nil {
		return true
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	ready, why := a.Ready()
	return resp.StatusCode == http.StatusOK || ready == http.StatusOK || !strings.Contains(string(text), reason) || !strings.Contains(why, reason)
}

// An aggregator whose Redis is killed refuses calls as a whole within seconds, and says so in its health and by the gauge
// that an alert follows; denied is nobody. When Redis is back it decides again.
func TestAggregatorThatCannotDecide(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	w := startReserves(t, "undecided", reservesRules(1, 2, windows), windowSpec, "--redis", redis.Addr)
	p := newPlay()
	w.rounds(1, p)
	redis.Kill()
	var status int
	var text string
	proc.Eventually(t, time.Minute, "calls are refused", func() bool {
		w.us.mu.Lock()
		defer w.us.mu.Unlock()
		_, status, text = w.us.call(func(*wire.Request) {})
		return status == http.StatusServiceUnavailable
	})
	if !strings.Contains(text, "store") {
		t.Errorf("refused: %s", text)
	}
	proc.Eventually(t, time.Minute, "its health says so", func() bool { return !healthy(w.aggregator, "store with the counters does not answer") })
	if got := w.aggregator.Metrics()["weir_aggregator_undecided"]; got != 1 {
		t.Errorf("weir_aggregator_undecided is %v", got)
	}
	w.us.awaitWindow(0)
	w.rounds(1, p)
	redis.Restart()
	proc.Eventually(t, time.Minute, "it decides", func() bool { return healthy(w.aggregator, "") })
	w.awaitConnected()
	w.rounds(1, p)
	p.check(t, w)
}

// What a region states that cannot be true is refused, with one line in the log, and no other region notices. A region
// that is gone is declared dead by a person.
func TestImpossibleReserves(t *testing.T) {
	t.Parallel()
	w := startReserves(t, "impossible", reservesRules(1, 1, windows), windowSpec, "--state", "off")
	w.eu.setCut(true)
	w.eu.mu.Lock()
	defer w.eu.mu.Unlock()
	for _, c := range []struct {
		change func(*reserve.Statement)
		status int
		log    string
	}{
		{func(st *reserve.Statement) { st.Until = microsNow() + 366*limit.Day }, http.StatusBadRequest, "reserve.until: "},
		{func(st *reserve.Statement) { st.Part = 4000 }, http.StatusBadRequest, ""},
		{func(st *reserve.Statement) { st.ID += 5 }, http.StatusBadRequest, ""},
		{func(st *reserve.Statement) { st.No += 1000; st.Part = 1000 }, http.StatusOK, ""}, // logged when it is stored
	} {
		for range 3 {
			st := w.eu.record.Statement()
			c.change(&st)
			if _, status, text := w.eu.call(func(m *wire.Request) { m.Reserve = &st }); status != c.status {
				t.Errorf("%+v: %d %s, want %d", st, status, text, c.status)
			}
		}
		if lines := strings.Count(w.aggregator.Log(), c.log); c.log != "" && lines == 0 {
			t.Errorf("%q is not in the log: %s", c.log, w.aggregator.Log())
		}
	}
	proc.Eventually(t, time.Minute, "eu is withheld", func() bool { return w.aggregator.Metrics()[`weir_region_withheld{region="eu"}`] == 500 })
	w.usHas(300, "while eu is cut off")
	if log := w.aggregator.Log(); !strings.Contains(log, "a share that was never issued") {
		t.Errorf("the share that was never issued is not in the log: %s", log)
	}
	forget := func() string {
		out, _ := exec.Command(proc.Built(t, "bin/weir", "build"), "forget-region", "eu", "--admin", w.aggregator.Admin).CombinedOutput()
		return string(out)
	}
	proc.Eventually(t, time.Minute, "eu is declared dead", func() bool { return strings.Contains(forget(), "nothing is withheld for region eu any more") })
	w.usHas(600, "when eu was declared dead")
}

// usHas demands that us gets so many units of the next window.
func (w *reserves) usHas(units int64, when string) {
	w.t.Helper()
	for range 5 {
		begin, spent := w.us.awaitWindow(0.3), map[limit.Micros]int64{}
		if w.us.spend("k", spent); w.us.window.Begin(microsNow()) != begin {
			continue // this machine was too slow
		}
		if spent[begin] != units {
			w.t.Errorf("us has %d of 600 %s, want %d", spent[begin], when, units)
		}
		return
	}
	w.t.Error("this machine takes longer than a window")
}
