package faults

import (
	"runtime"
	"runtime/pprof"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/redis/redisstore"
)

// watch looks at stores, and at the process they run in, every few milliseconds.
type watch struct {
	load   *load
	stores []*redisstore.Store
	all    sync.WaitGroup
	ended  chan struct{}

	mu      sync.Mutex
	samples []sample
	before  int    // goroutines before the fault; 0: not known yet
	most    int    // that stayed for a while later
	crowd   string // what they did when they were too many
}

// sample is what was seen at some time within a span.
type sample struct {
	span
	queued     int
	goroutines int
	cpu        time.Duration // of this process, since it began
	// unanswered is how many asks were given up so far that may have been applied.
	unanswered int64
}

// dialling is how many goroutines may come on top of those that always run: of
// clients that connect, and look for masters. Two stores ask three nodes each at the
// same time, and each question has up to three: who asks, who connects, and who closes.
// The test itself asks six nodes at once whether the cluster is well.
const dialling = 28 + 6

func startWatch(l *load, stores ...*redisstore.Store) *watch {
	w := &watch{load: l, stores: stores, ended: make(chan struct{})}
	w.look()
	w.all.Go(func() {
		for {
			select {
			case <-w.ended:
				w.look()
				return
			case <-time.After(5 * time.Millisecond):
				w.look()
			}
		}
	})
	return w
}

// stop looks once more and ends.
func (w *watch) stop() {
	close(w.ended)
	w.all.Wait()
}

// while is how many samples make up a while.
const while = 50

// calm takes the number of goroutines that have run for a while for what always runs.
func (w *watch) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = w.fewest()
}

// fewest is how many goroutines there were at least for a while until now: when
// deadlines pass on a crowded machine, a goroutine for each of them waits for its
// turn. The caller holds mu.
func (w *watch) fewest() int {
	last := w.samples[max(0, len(w.samples)-while):]
	return slices.MinFunc(last, func(a, b sample) int { return a.goroutines - b.goroutines }).goroutines
}

func (w *watch) look() {
	s := sample{span: span{from: w.load.at()}, goroutines: runtime.NumGoroutine()}
	for _, one := range w.stores {
		st := one.Stats()
		s.queued += st.Queued
		// All others were never sent, or refused by the server.
		s.unanswered += int64(st.Unavailable["timeout"] + st.Unavailable["network"] + st.Unavailable["deadline"])
	}
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for no process of ours
	s.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	s.until = w.load.at()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
	w.count()
}

// count counts goroutines that stay for a while. The caller holds mu.
func (w *watch) count() {
	if w.before == 0 || w.fewest() <= w.most {
		return
	}
	if w.most = w.fewest(); w.most > w.before+dialling {
		var b strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
		w.crowd = b.String()
	}
}

// within are the samples of a span, the last one before it and the first one after
// it included.
func (w *watch) within(during span) []sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := sort.Search(len(w.samples), func(i int) bool { return w.samples[i].until > during.from })
	after := sort.Search(len(w.samples), func(i int) bool { return w.samples[i].from >= during.until })
	return w.samples[max(0, first-1):min(after+1, len(w.samples))]
}

// unanswered is at most how many asks may have been applied, of those that were asked
// and answered Unavailable within a span: they were sent, and not answered in time.
func (w *watch) unanswered(during span) int64 {
	seen := w.within(during)
	return seen[len(seen)-1].unanswered - seen[0].unanswered
}

// cpu is how much of a processor this process used in a span.
func (w *watch) cpu(during span) float64 {
	seen := w.within(during)
	first, last := seen[0], seen[len(seen)-1]
	return float64(last.cpu-first.cpu) / float64(max(last.until-first.from, time.Millisecond))
}

// queued is in what share of the samples there was something in a queue. Those that
// the machine held up mean nothing.
func (w *watch) queued(during span, stalled func(span) bool) float64 {
	some, all := 0, 0
	for _, s := range w.within(during) {
		if stalled(s.span) {
			continue
		}
		all++
		if s.queued > 0 {
			some++
		}
	}
	return float64(some) / float64(max(all, 1))
}

// flat: neither goroutines nor queues grow with the time for which a node hangs.
func (w *watch) flat(t *testing.T) {
	t.Helper()
	if w.crowd != "" {
		t.Errorf("%d goroutines before, %d at most later: want no more than %d more, not\n%s", w.before, w.most, dialling, w.crowd)
	}
	if n := w.samples[len(w.samples)-1].queued; n != 0 {
		t.Errorf("%d asks still wait though nobody asks", n)
	}
	deepest := slices.MaxFunc(w.samples, func(a, b sample) int { return a.queued - b.queued })
	t.Logf("goroutines: %d, at most %d; queued at most %d", w.before, w.most, deepest.queued)
}

// thrifty: what fails is not worth more of a processor than what is well. A store
// that spins would be late, and its witness with it.
func (w *watch) thrifty(t *testing.T, calm, fault span) {
	t.Helper()
	before, during := w.cpu(calm), w.cpu(fault)
	t.Logf("processor: %.2f before the fault, %.2f during it", before, during)
	if most := 1.25*before + 0.2; during > most {
		t.Errorf("the process used %.2f of a processor while nodes were away, and %.2f before: want at most %.2f", during, before, most)
	}
}
