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

// tier is the tier above: its addresses, and whether the present one answers. It is safe for
// concurrent use.
type tier struct {
	transport http.RoundTripper
	jitter    func() lease.Percent
	began     time.Time

	mu        sync.Mutex
	addresses []string // none: not known yet
	present   int      // index of the address that is called
	breaker   holder.Breaker
	called    lease.Millis // when the last call began
}

func newTier(addresses []string, t http.RoundTripper, jitter func() lease.Percent) *tier {
	return &tier{transport: t, jitter: jitter, addresses: addresses, began: time.Now()}
}

// now is the clock of the breaker.
func (t *tier) now() lease.Millis { return lease.Millis(time.Since(t.began).Milliseconds()) + 1 }

// move replaces the addresses by others, at least one. The present one is called as long as
// it is among them.
func (t *tier) move(addresses []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	present := 0
	if len(t.addresses) > 0 {
		present = max(0, slices.Index(addresses, t.addresses[t.present]))
	}
	t.addresses, t.present = slices.Clone(addresses), present
}

// silent reports whether the tier does not answer, or has no address yet: at most probes are
// sent then.
func (t *tier) silent() bool { return t.silentFor() > 0 }

// silentFor is for how long the tier has been silent; without an address, since the last time or the start.
func (t *tier) silentFor() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.breaker.Open && len(t.addresses) > 0 {
		return 0
	}
	return time.Duration(max(t.now()-t.breaker.Since, 1)) * time.Millisecond
}

// address is where to call. The caller does so.
func (t *tier) address() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called = t.now()
	return t.addresses[t.present]
}

// at is the address that is called, where a heartbeat is due nevertheless.
func (t *tier) at() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addresses[t.present]
}

// answered takes the answer to a call. True: the tier was silent before.
func (t *tier) answered(seq uint64) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	again = t.breaker.Open
	t.breaker.Answered(seq)
	return again
}

// failed notes that a call of an address failed. True: from now on the tier is silent. The
// next address is tried then, and again after each probe that fails.
func (t *tier) failed(address string, seq uint64, timedOut bool) (silent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if address != t.addresses[t.present] {
		return false
	}
	fail := t.breaker.Failed
	if timedOut {
		fail = t.breaker.TimedOut
	}
	silent = fail(t.now(), seq, 0)
	if t.breaker.Open {
		t.present = (t.present + 1) % len(t.addresses)
	}
	return silent
}

// due reports whether a call without wants is to be made: a probe or a heartbeat.
func (t *tier) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.addresses) == 0 {
		return false
	}
	now := t.now()
	if t.breaker.Open {
		if !t.breaker.ProbeDue(now) {
			return false
		}
		t.breaker.Probed(now, t.jitter())
		return true
	}
	return now >= t.called+lease.Millis(heartbeatEvery.Milliseconds())
}

// earlier is the addresses before the one that is called.
func (t *tier) earlier() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.addresses[:t.present])
}

// goBack calls an earlier address from now on, if it is still one.
func (t *tier) goBack(earlier string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.addresses, earlier)
	if at < 0 || at >= t.present {
		return false
	}
	t.present = at
	return true
}

// goBack calls the first healthy address of those before the one that is called.
func (s *Store) goBack() {
	earlier := s.tier.earlier()
	if i := slices.IndexFunc(earlier, s.isWell); i >= 0 && s.tier.goBack(earlier[i]) {
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
	answer, err := s.tier.transport.RoundTrip(r)
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
		if !s.tier.due() {
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
