package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/proc"
)

// splitLoad asks for keys on both sides, all the time, and looks at both services.
type splitLoad struct {
	t       *testing.T
	stop    func()
	offered atomic.Pointer[[]want]
	vitals  []*vitals // of both sides

	mu      sync.Mutex
	granted map[grantee]int
	last    map[grantee]time.Time // when each was decided on last
	calls   []period
	stalls  []period // in which the machine itself was late: timers of this process were
}

// want is a key of a rule.
type want struct{ rule, key string }

// wanted are keys of a rule.
func wanted(rule string, keys ...[]string) (all []want) {
	for _, key := range slices.Concat(keys...) {
		all = append(all, want{rule, key})
	}
	return all
}

// grantee is a key of a rule on one side.
type grantee struct {
	side *replica
	want
}

func startSplitLoad(s *split, offered []want) *splitLoad {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &splitLoad{t: s.t, granted: map[grantee]int{}, last: map[grantee]time.Time{}}
	l.offer(offered)
	var all sync.WaitGroup
	for _, side := range []*replica{s.a, s.b} {
		for worker := range 6 {
			all.Go(func() {
				h := side.newHolder()
				for i := worker; ctx.Err() == nil; i++ {
					offered := *l.offered.Load()
					l.ask(ctx, h, offered[i%len(offered)])
				}
			})
		}
		v := &vitals{of: side}
		l.vitals = append(l.vitals, v)
		all.Go(func() { v.follow(ctx) })
	}
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				l.nap()
			}
		})
	}
	stop := sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	s.t.Cleanup(stop)
	l.stop = stop
	return l
}

// offer asks for these from now on.
func (l *splitLoad) offer(wants ...[]want) {
	all := slices.Concat(wants...)
	l.offered.Store(&all)
}

func (l *splitLoad) ask(ctx context.Context, h *holder, w want) {
	status, granted, took, err := h.ask(ctx, w.rule, w.key)
	end := time.Now()
	who := grantee{h.of, w}
	l.mu.Lock()
	l.granted[who] += int(granted)
	if status == quotapb.Status_STATUS_OK || status == quotapb.Status_STATUS_DENIED {
		l.last[who] = time.Now()
	}
	if ctx.Err() == nil {
		l.calls = append(l.calls, period{end.Add(-took), end})
	}
	l.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		l.t.Errorf("%s: %v", h.of.Name, err)
	}
	time.Sleep(2 * time.Millisecond)
}

// awaitDecided waits until a side has decided on all of a rule's keys after now.
func (l *splitLoad) awaitDecided(side *replica, rule string, keys []string, within time.Duration) {
	l.t.Helper()
	from := time.Now()
	proc.Eventually(l.t, within, side.Name+" decides on "+keys[0]+" and its like", func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !l.lastly(side, rule, key).After(from) })
	})
}

// awaitSilence waits until a side has decided on none of a rule's keys for a second.
// They must not be spent: what was denied stays so, from memory.
func (l *splitLoad) awaitSilence(side *replica, rule string, keys []string, within time.Duration) {
	l.t.Helper()
	proc.Eventually(l.t, within, side.Name+" decides no more on "+keys[0]+" and its like", func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return time.Since(l.lastly(side, rule, key)) < time.Second })
	})
}

// lastly is when a side decided on a key last.
func (l *splitLoad) lastly(side *replica, rule, key string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[grantee{side, want{rule, key}}]
}

// eachWithin fails if a side alone was granted more than a limit of any key. That
// holds while each side has one master for it: a side that has both after another
// may be granted the rest of the second limit, too.
func (l *splitLoad) eachWithin() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, n := range l.granted {
		if n > splitLimit && who.rule != "roomy" {
			l.t.Errorf("%s %s: %s granted %d of %d", who.rule, who.key, who.side.Name, n, splitLimit)
		}
	}
}

// bounded fails if a key was granted more than most on both sides. It returns 1 if
// that was more than one limit: both sides served it apart from each other.
func (l *splitLoad) bounded(rule, key string, most int) (twice int) {
	l.t.Helper()
	total := 0
	for who, n := range l.granted {
		if who.rule == rule && who.key == key {
			total += n
		}
	}
	switch {
	case total > most:
		l.t.Errorf("%s %s: %d were granted in all, at most %d", rule, key, total, most)
	case total > splitLimit:
		return 1
	}
	return 0
}

// nap waits as a call does that nobody answers, and notes when it was woken late.
func (l *splitLoad) nap() {
	const nap, late = 10 * time.Millisecond, 10 * time.Millisecond
	begin := time.Now()
	time.Sleep(nap)
	if end := time.Now(); end.Sub(begin) > nap+late {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stalls = append(l.stalls, period{begin, end})
	}
}

// unstalled are how long the calls took that the machine itself did not hold up.
func (l *splitLoad) unstalled() (took []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if !slices.ContainsFunc(l.stalls, func(s period) bool { return s.from.Before(c.until) && c.from.Before(s.until) }) {
			took = append(took, c.until.Sub(c.from))
		}
	}
	return took
}

// enough waits until enough calls were not held up by the machine: a judgement on
// fewer would be one on the machine.
func (l *splitLoad) enough() {
	l.t.Helper()
	proc.Eventually(l.t, time.Minute, "1,000 calls are not held up by the machine, which keeps timers late nearly all the time",
		func() bool { return len(l.unstalled()) >= 1000 })
}

// inTime: 999 of 1,000 calls return within their budget and 20 ms, leaving out those
// that the machine itself held up.
func (l *splitLoad) inTime() {
	l.t.Helper()
	took := l.unstalled()
	slices.Sort(took)
	got, most := took[len(took)*999/1000], callBudget+20*time.Millisecond
	if got > most {
		l.t.Errorf("p99.9 of %d calls took %v, at most %v", len(took), got, most)
	}
	l.t.Logf("%d calls, %d of them held up by the machine, p99.9 of the others %v", len(l.calls), len(l.calls)-len(took), got)
}

// vitals are what has to stay flat in a service, whatever is cut off, by its own
// metrics.
type vitals struct {
	of *replica

	mu                 sync.Mutex
	goroutines, queued []float64
}

// follow looks every tenth of a second.
func (v *vitals) follow(ctx context.Context) {
	for ctx.Err() == nil {
		m := v.of.Metrics()
		v.mu.Lock()
		v.goroutines = append(v.goroutines, m["go_goroutines"])
		v.queued = append(v.queued, m["weir_redis_queued"])
		v.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
}

// steady lets the load run for a while and takes what is there for what always is.
func (l *splitLoad) steady() {
	time.Sleep(1500 * time.Millisecond)
	for _, v := range l.vitals {
		v.mu.Lock()
		v.goroutines, v.queued = []float64{slices.Max(v.goroutines)}, nil
		v.mu.Unlock()
	}
}

// flat: while the cable was cut neither goroutines nor what waits for Redis grew
// with the time. What is there for a moment, while calls wait for their deadlines, is
// not what grows.
func (l *splitLoad) flat() {
	l.t.Helper()
	const slack = 16 // connections to nodes that do not answer, and look-ups
	for _, v := range l.vitals {
		v.mu.Lock()
		before, goroutines, queued := v.goroutines[0], lasting(v.goroutines[1:]), lasting(v.queued)
		n := len(v.queued)
		v.mu.Unlock()
		if before == 0 || goroutines > before+slack {
			l.t.Errorf("%s: %v goroutines before the cut, and lastingly %v in it: want no more than %d more", v.of.Name, before, goroutines, slack)
		}
		if queued > 0 {
			l.t.Errorf("%s: lastingly %v asks waited for nodes that do not answer", v.of.Name, queued)
		}
		l.t.Logf("%s: %v goroutines before the cut, at most %v in it; %v asks waited lastingly; %d samples", v.of.Name, before, goroutines, queued, n)
	}
}

// lasting is the most that there was for half a second.
func lasting(samples []float64) (most float64) {
	const half = 5
	for i := range max(0, len(samples)-half+1) {
		most = max(most, slices.Min(samples[i:i+half]))
	}
	return most
}

// take asks for single units until so many are granted. undecided asks, which a busy machine did not
// decide in time, may have cost a unit each.
func (h *holder) take(t *testing.T, rule, key string, units int) (undecided int) {
	t.Helper()
	for granted := 0; granted < units; {
		status, n, _, err := h.ask(t.Context(), rule, key)
		switch late := connect.CodeOf(err) == connect.CodeDeadlineExceeded; {
		case n == 1:
			granted++
		case (late || err == nil && status == quotapb.Status_STATUS_UNAVAILABLE) && undecided < 10*units:
			undecided++
		default:
			t.Fatalf("%s: %s: after %d units and %d undecided asks: %v, %v", h.of.Name, key, granted, undecided, status, err)
		}
	}
	return undecided
}

// offer sends so many requests for a key of a rule, as a client of Envoy's rate limit
// service does, and counts what is within the limit.
func (r *replica) offer(rule, key string, n int) (admitted int) {
	r.t.Helper()
	body := fmt.Sprintf(`{"domain": "test", "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, rule, key)
	for range n {
		resp, err := r.HTTP.Post("http://"+r.Addr+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			r.t.Fatalf("%s: %v", r.Name, err)
		}
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			r.t.Fatalf("%s: %s", r.Name, resp.Status)
		}
	}
	return admitted
}
