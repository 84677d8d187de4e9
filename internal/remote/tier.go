package remote

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/repeat"
)

// heartbeatEvery is the longest time without a call. A region of which no reply is acknowledged
// for silence.After is taken for cut off: a reply is acknowledged by the next call or the one
// after it.
const heartbeatEvery = 500 * time.Millisecond

// returnEvery: at multiples of this of the clock a replica looks whether the first address answers again, or a new
// first one does. So all replicas of all regions return at about the same time. Each aggregator takes
// regions that call another one for silent.
const returnEvery = 10 * time.Second

// tier is the tier above: its addresses, and whether the present one answers. It is safe for
// concurrent use.
type tier struct {
	transport http.RoundTripper
	began     time.Time

	mu        sync.Mutex
	addresses []string // none: not known yet
	present   int      // index of the address that is called
	breaker   lease.Breaker
	called    lease.Millis // when the last call began
	looked    int64        // the multiple of returnEvery at which it last looked for the first address
	every     int64        // of so many multiples it uses one; 0: each. A first address that fails soon doubles it
	returned  lease.Millis // when it last went back to the first address; 0: never
}

func newTier(addresses []string, t http.RoundTripper) *tier {
	return &tier{transport: t, addresses: addresses, began: time.Now()}
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
func (t *tier) silent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.breaker.Open || len(t.addresses) == 0
}

// address is where to call. The caller does so.
func (t *tier) address() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called = t.now()
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
	if silent && t.present == 0 {
		t.doubt()
	}
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
		t.breaker.Probed(now, lease.Millis(90+rand.IntN(21)))
		return true
	}
	return now >= t.called+lease.Millis(heartbeatEvery.Milliseconds())
}

// lookFor is the first address, if another one is called and it is time to look whether the first
// one answers.
func (t *tier) lookFor(wall time.Time) (first string, look bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := wall.UnixNano() / int64(returnEvery)
	if turn == t.looked {
		return "", false
	}
	t.looked = turn
	if t.present == 0 || t.breaker.Open || turn%max(t.every, 1) != 0 {
		return "", false
	}
	return t.addresses[0], true
}

// goBack calls the first address from now on, if it is still this one and the present one answers.
func (t *tier) goBack(first string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.present == 0 || t.breaker.Open || t.addresses[0] != first {
		return false
	}
	t.present, t.returned = 0, t.now()
	return true
}

// doubt notes that the first address fails.
func (t *tier) doubt() {
	const most = 64
	every := max(t.every, 1)
	soon := lease.Millis(2 * every * returnEvery.Milliseconds())
	t.every = 1
	if t.returned > 0 && t.now() < t.returned+soon {
		t.every = min(2*every, most)
	}
}

// lookBack goes back to the first address if that is well.
func (s *Store) lookBack(first string) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.scheme+first+"/healthz", nil)
	if err != nil {
		return
	}
	answer, err := s.tier.transport.RoundTrip(r)
	if err != nil {
		return
	}
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusOK && s.tier.goBack(first) {
		s.log.Info("the first of the addresses of the tier above is called", "address", first)
	}
}

// Run sends probes and heartbeats until ctx ends, and waits for their answers. Asks travel
// without it, too.
func (s *Store) Run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	probing := make(chan struct{}, 8) // so many probes may hang at a time
	repeat.Every(ctx, 20*time.Millisecond, func() {
		if first, look := s.tier.lookFor(time.Now()); look {
			calls.Go(func() { s.lookBack(first) })
		}
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
