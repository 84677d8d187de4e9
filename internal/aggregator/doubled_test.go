package aggregator_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/telemetry"
)

// caller is a replica, and the store whose identity it states.
type caller struct {
	holder byte
	store  uint64
}

// call lets replicas call in the name of eu, for a time: each twice a second. It reports whether any answer
// tells them that eu is doubled.
func (w *weighed) call(d limit.Micros, callers ...caller) (doubled bool) {
	for ends := w.now + d; w.now < ends; w.now += limit.Second / 2 {
		for _, c := range callers {
			w.seq["eu"]++
			doubled = w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{c.holder}, Store: c.store, Seq: w.seq["eu"]}) || doubled
		}
	}
	return doubled
}

// Two stores that call in turns in the name of one region are reported, whatever each region's replicas
// are, until one has not called for a while.
func TestDoubled(t *testing.T) {
	for _, callers := range [][]caller{{{1, 7}, {2, 8}}, {{1, 7}, {2, 7}, {3, 8}, {4, 8}, {5, 0}}, {{1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}, {6, 12}}} {
		w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
		once := append(slices.Clone(callers), caller{9, 99}) // which has gone before it is reported
		if w.call(limit.Second/2, once...) || w.call(59*limit.Second/2, callers...) {
			t.Errorf("%v: reported too early", callers)
		}
		if !w.call(limit.Second, callers...) {
			t.Errorf("%v: not reported", callers)
		}
		if w.call(9*limit.Second, callers[0]); !w.call(limit.Second/2, callers...) {
			t.Errorf("%v: not reported after a pause", callers)
		}
		w.call(11*limit.Second, callers[0])
		if w.call(29*limit.Second, callers...) {
			t.Errorf("%v: reported, although it had ended", callers)
		}
	}
}

// What happens to the store of one region, or to its replicas, is not taken for another region.
func TestNotDoubled(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
	none := func(what string, d limit.Micros, callers ...caller) {
		t.Helper()
		if w.call(d, callers...) {
			t.Errorf("%s: reported", what)
		}
	}
	none("two replicas on one Redis", 2*limit.Minute, caller{1, 7}, caller{2, 7})
	none("Redis lost its data, and one replica has not noticed", limit.Second, caller{1, 8}, caller{2, 7})
	none("the other one has not read the identity yet", 5*limit.Second, caller{1, 8}, caller{2, 0})
	none("it has", 2*limit.Minute, caller{1, 8}, caller{2, 8})
	none("replicas of an older release state none", 2*limit.Minute, caller{1, 8}, caller{2, 8}, caller{3, 0}, caller{4, 0})
	none("all are of an older release", 2*limit.Minute, caller{3, 0}, caller{4, 0})
	for store := uint64(10); store < 20; store++ {
		none("Redis loses its data again and again", 20*limit.Second, caller{1, store}, caller{2, store})
	}
	for store := uint64(20); store < 30; store++ {
		none("a process with counters in memory", 2*limit.Minute, caller{byte(store), store})
		none("another one takes its place while it drains", 29*limit.Second, caller{byte(store), store}, caller{byte(store + 1), store + 1})
	}
	for store := uint64(40); store < 50; store++ {
		none("each is killed before the next one starts", 40*limit.Second, caller{byte(store), store})
	}
	for range 10 {
		none("a late copy of a call of before", limit.Second/2, caller{1, 50}, caller{2, 49})
		none("and nothing more of it", 11*limit.Second, caller{1, 50})
	}
	if !w.call(31*limit.Second, caller{1, 50}, caller{2, 51}) {
		t.Error("after all this two stores are not reported")
	}
}

// Another region, one that has no share, and one that is not listed change nothing for a region, and are
// judged for themselves.
func TestDoubledByName(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
	told := map[string]bool{}
	for seq := uint64(1); seq < 200; seq++ {
		w.now += limit.Second / 2
		for _, c := range []limiter.RegionCall{{Region: "eu", Store: 7}, {Region: "us", Store: 8}, {Region: "us", Store: 9}, {Region: "ap", Store: 7}, {Region: "ap", Store: 8}} {
			c.Holder, c.Seq = limiter.HolderID{byte(c.Store)}, seq
			told[c.Region] = w.store.Called(c)
		}
	}
	if told["eu"] || !told["us"] || told["ap"] {
		t.Errorf("%v, want us alone: ap has no share", told)
	}
}

// However many identities somebody invents, few are kept, those that are there stay, and what is reported
// of them stays right.
func TestDoubledIsBounded(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
	w.call(limit.Second, caller{1, 7}, caller{2, 8})
	for invented := uint64(100); invented < 10_000; {
		for range 100 {
			w.seq["eu"]++
			w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{3}, Store: invented, Seq: w.seq["eu"]})
			invented++
		}
		w.call(limit.Second/2, caller{1, 7}, caller{2, 8})
	}
	if n := aggregator.StoresOf(w.store, "eu"); n > 4 {
		t.Errorf("%d stores are kept", n)
	}
	if !w.call(limit.Second/2, caller{1, 7}, caller{2, 8}) {
		t.Error("the two that have called all the time are not reported")
	}
}

// The log has one line a minute with what a person needs, and the metric is 1 for as long as it lasts.
func TestDoubledIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := telemetry.NewRegistry("test")
		var log bytes.Buffer
		store := aggregator.New(aggregator.Config{
			Store: memory.New(memory.Config{MaxKeys: 10, MaxBytes: 1 << 20}), MaxKeys: 10, MaxBytes: 1 << 20, Metrics: metrics,
			Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		store.SetRegions(quarters)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = store.Run(ctx) })
		seq := uint64(0)
		pass := func(d time.Duration, stores ...uint64) {
			for ends := time.Now().Add(d); time.Now().Before(ends); time.Sleep(time.Second / 2) {
				for _, s := range stores {
					seq++
					store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{byte(s)}, From: fmt.Sprint("10.0.0.", s), Store: s, Seq: seq})
				}
			}
		}
		gauge := func() string {
			synctest.Wait()
			w := httptest.NewRecorder()
			metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			_, after, _ := strings.Cut(w.Body.String(), `weir_region_doubled{region="eu"} `)
			return after[:1]
		}
		if pass(25*time.Second, 7, 8); gauge() != "0" || log.Len() > 0 {
			t.Errorf("after 25 s: %s, log %q", gauge(), log.String())
		}
		if pass(10*time.Second, 7, 8); gauge() != "1" {
			t.Errorf("after 35 s: %s", gauge())
		}
		pass(3*time.Minute, 7, 8)
		synctest.Wait()
		text := log.String()
		if n := strings.Count(text, "\n"); n < 3 || n > 4 {
			t.Errorf("%d lines in 3 minutes:\n%s", n, text)
		}
		for _, want := range []string{`"level":"ERROR"`, `"region":"eu"`, "0000000000000007 of replica 07", "at 10.0.0.7", "0000000000000008", "at 10.0.0.8", "--region"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		log.Reset()
		if pass(2*time.Minute, 7); gauge() != "0" || log.Len() > 0 {
			t.Errorf("one has gone: %s, log %q", gauge(), log.String())
		}
		cancel()
		all.Wait()
	})
}
