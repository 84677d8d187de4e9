package client

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/reserve"
)

// heartbeatEvery is the longest time without a call.
const heartbeatEvery = time.Duration(reserve.Beat) * time.Microsecond

// returnEvery is how often a replica looks whether an address is healthy that is before the one it calls.
const returnEvery = 10 * time.Second

// aggregator is the addresses of the aggregator, and whether the present one answers. It is safe for
// concurrent use.
type aggregator struct {
	transport http.RoundTripper
	jitter    func() lease.Percent
	began     time.Time

	mu        sync.Mutex
	addresses []string // none: not known yet
	present   int      // index of the address that is called
	breaker   holder.Breaker
	called    lease.Millis // when the last call began
}

func newAggregator(addresses []string, t http.RoundTripper, jitter func() lease.Percent) *aggregator {
	return &aggregator{transport: t, jitter: jitter, addresses: addresses, began: time.Now()}
}

// now is the clock of the breaker.
func (a *aggregator) now() lease.Millis { return lease.Millis(time.Since(a.began).Milliseconds()) + 1 }

// move replaces the addresses by others, at least one. The present one is called as long as
// it is among them.
func (a *aggregator) move(addresses []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	present := 0
	if len(a.addresses) > 0 {
		present = max(0, slices.Index(addresses, a.addresses[a.present]))
	}
	a.addresses, a.present = slices.Clone(addresses), present
}

// unavailable reports whether the aggregator does not answer, or has no address yet: at most probes are
// sent then.
func (a *aggregator) unavailable() bool { return a.unavailableFor() > 0 }

// unavailableFor is for how long the aggregator has been unavailable; without an address, since the last time or the start.
func (a *aggregator) unavailableFor() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.breaker.Open && len(a.addresses) > 0 {
		return 0
	}
	return time.Duration(max(a.now()-a.breaker.Since, 1)) * time.Millisecond
}

// address is where to call. The caller does so.
func (a *aggregator) address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.called = a.now()
	return a.addresses[a.present]
}

// at is the address that is called, where a heartbeat is due nevertheless.
func (a *aggregator) at() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addresses[a.present]
}

// answered takes the answer to a call. True: the aggregator was unavailable before.
func (a *aggregator) answered(seq uint64) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again = a.breaker.Open
	a.breaker.Answered(seq)
	return again
}

// failed notes that a call of an address failed. True: from now on the aggregator is unavailable. The
// next address is tried then, and again after each probe that fails.
func (a *aggregator) failed(address string, seq uint64, timedOut bool) (unavailable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if address != a.addresses[a.present] {
		return false
	}
	fail := a.breaker.Failed
	if timedOut {
		fail = a.breaker.TimedOut
	}
	unavailable = fail(a.now(), seq, 0)
	if a.breaker.Open {
		a.present = (a.present + 1) % len(a.addresses)
	}
	return unavailable
}

// due reports whether a call without wants is to be made: a probe or a heartbeat.
func (a *aggregator) due() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.addresses) == 0 {
		return false
	}
	now := a.now()
	if a.breaker.Open {
		if !a.breaker.ProbeDue(now) {
			return false
		}
		a.breaker.Probed(now, a.jitter())
		return true
	}
	return now >= a.called+lease.Millis(heartbeatEvery.Milliseconds())
}

// earlier is the addresses before the one that is called.
func (a *aggregator) earlier() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.addresses[:a.present])
}

// goBack calls an earlier address from now on, if it is still one.
func (a *aggregator) goBack(earlier string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.addresses, earlier)
	if at < 0 || at >= a.present {
		return false
	}
	a.present = at
	return true
}

// goBack calls the first healthy address of those before the one that is called.
func (s *Store) goBack() {
	earlier := s.aggregator.earlier()
	if i := slices.IndexFunc(earlier, s.isWell); i >= 0 && s.aggregator.goBack(earlier[i]) {
		s.config.Log.Info("calling an earlier address of the aggregator again", "address", earlier[i])
	}
}

// isWell reports whether an address answers that it is healthy.
func (s *Store) isWell(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.scheme+address+"/healthz", nil)
	if err != nil {
		return false
	}
	answer, err := s.aggregator.transport.RoundTrip(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Run sends probes and heartbeats until ctx ends, and waits for their answers. Asks travel
// without it, too.
func (s *Store) Run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	probing := make(chan struct{}, 8) // so many probes may hang at a time
	calls.Go(func() { repeat.Every(ctx, returnEvery, s.goBack) })
	repeat.Every(ctx, 20*time.Millisecond, func() {
		if !s.aggregator.due() {
			return
		}
		select {
		case probing <- struct{}{}:
			calls.Go(func() {
				defer func() { <-probing }()
				s.call(context.Background(), nil)
			})
		default:
		}
	})
	return nil
}
