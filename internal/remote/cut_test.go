package remote_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	regions "github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/front"
	"github.com/weirlimit/weir/internal/remote"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
)

const weightedRules = `
regions: { eu: 3, us: 2, ap: 1 }
rules:
  - { name: window, key: [], limit: 600/10s, algorithm: fixed_window, scope: global }
  - { name: bucket, key: [], limit: { count: 60, per: 1s, burst: 120 }, scope: global }
`

// planet is regions and the aggregator.
type planet struct {
	t       *testing.T
	service *limiter.Service
	handler http.Handler
	names   []string
	stores  map[string]engine.Store
	ways    map[string]*way
	began   time.Time

	mu      sync.Mutex
	windows map[string]map[uint32]int64 // units of the window rule by region and window
	refused map[string]int64            // units that are not reported yet, by region and rule
	seconds map[string][]int64          // units of the bucket rule by region and second
}

// way is the link of a region to the aggregator. What is cut hangs.
type way struct {
	handler  http.Handler
	up, down atomic.Bool // cut
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Millisecond)
	if w.up.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	out := httptest.NewRecorder()
	q := httptest.NewRequest(r.Method, r.URL.Path, bytes.NewReader(body))
	q.Header = r.Header
	w.handler.ServeHTTP(out, q)
	time.Sleep(20 * time.Millisecond)
	if w.down.Load() {
		<-r.Context().Done()
	}
	return out.Result(), r.Context().Err()
}

// newPlanet starts all of it. It runs until ctx ends.
func newPlanet(ctx context.Context, t *testing.T, all *sync.WaitGroup, names ...string) *planet {
	t.Helper()
	set, err := rulefile.Parse("rules.yaml", []byte(weightedRules))
	if err != nil {
		t.Fatal(err)
	}
	counters := memory.New(memory.Config{MaxKeys: 100, MaxBytes: 1 << 20})
	divided := regions.New(regions.Config{Store: counters, MaxKeys: 100, MaxBytes: 1 << 20, Cell: counters.NewCell(), Alone: true})
	divided.SetRegions(set.Regions())
	p := &planet{
		t: t, service: limiter.NewService(limiter.Config{Store: divided, Reserves: divided}), names: names,
		stores: map[string]engine.Store{}, ways: map[string]*way{}, began: time.Now(),
		windows: map[string]map[uint32]int64{}, seconds: map[string][]int64{}, refused: map[string]int64{},
	}
	if err := p.service.SetRules(set); err != nil {
		t.Fatal(err)
	}
	p.handler = limiter.NewHandler(p.service, nil)
	run := func(run func(context.Context) error) { all.Go(func() { _ = run(ctx) }) }
	run(divided.Run)
	for _, name := range p.names {
		p.ways[name] = &way{handler: p.handler}
		own := memory.New(memory.Config{MaxKeys: 100, MaxBytes: 1 << 20})
		keeper := upstream.NewKeeper(upstream.KeeperConfig{
			Cell: own.NewCell(), Region: name,
			Windows: func() []reserve.Window {
				return []reserve.Window{{Period: 10 * limit.Second}, {Period: 3 * limit.Second, Refills: true}}
			},
		})
		store, err := remote.New(remote.Config{Addresses: []string{"one"}, Region: name, Transport: p.ways[name], Reserve: keeper})
		if err != nil {
			t.Fatal(err)
		}
		far := front.New(front.Config{Store: store, MaxKeys: 100, MaxBytes: 1 << 20, Timeout: remote.DefaultTimeout, Answers: 250 * time.Millisecond})
		p.stores[name] = upstream.New(upstream.Config{Far: far, Own: own, Raw: own, Keeper: keeper, Lacks: store.Lacks, Metrics: telemetry.NewRegistry("")})
		p.windows[name], p.seconds[name] = map[uint32]int64{}, make([]int64, 100)
		run(store.Run)
		run(far.Run)
		run(keeper.Run)
	}
	return p
}

// anyTag is the bits that tell leases of a reserve from others.
const anyTag = 3 << 30

// offer lets each region ask 50 times a second for a unit of each rule, for a time.
func (p *planet) offer(d time.Duration) {
	var all sync.WaitGroup
	for ends := time.Now().Add(d); time.Now().Before(ends); time.Sleep(20 * time.Millisecond) {
		for _, name := range p.names {
			for _, rule := range []string{"window", "bucket"} {
				all.Go(func() {
					time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
					p.request(name, rule)
				})
			}
		}
	}
	all.Wait()
}

func (p *planet) request(region, rule string) {
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	p.mu.Lock()
	refused := p.refused[region+rule]
	p.refused[region+rule] = 0
	p.mu.Unlock()
	grants := make([]lease.Grant, 1)
	p.stores[region].Acquire(ctx, []engine.Ask{{Policy: p.service.Policy(rule, 0, nil), Want: lease.Want{Need: 1, Waiting: 1, Want: 1, Denied: refused}}}, grants)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch g := grants[0]; {
	case g.Status == lease.Denied:
		p.refused[region+rule]++
	case g.Status != lease.OK:
		p.t.Errorf("%s, %s: %+v", region, rule, g)
	case rule == "bucket":
		p.seconds[region][int(time.Since(p.began)/time.Second)] += g.Granted
	default:
		p.windows[region][g.Lease&^anyTag] += g.Granted // the window, whether of the share or not
	}
}

// of is how many units a region was granted of the window n, and of the bucket in it.
func (p *planet) of(region string, n int) (window, bucket int64) {
	at := p.began.Add(time.Duration(n) * 10 * time.Second)
	for second := 10 * n; second < 10*n+10; second++ {
		bucket += p.seconds[region][second]
	}
	return p.windows[region][uint32(at.UnixMilli())&^anyTag], bucket
}

// A region that is cut off in one direction or both admits its share of each window that begins after it
// has noticed, and all regions together no more than the limit in any window. Afterwards all is as before.
func TestCutOffRegion(t *testing.T) {
	for name, cut := range map[string]func(*way){
		"both ways": func(w *way) { w.up.Store(true); w.down.Store(true) },
		"calls":     func(w *way) { w.up.Store(true) },
		"replies":   func(w *way) { w.down.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				var all sync.WaitGroup
				defer func() {
					cancel()
					all.Wait()
					time.Sleep(time.Second) // the calls that are on their way
				}()
				p := newPlanet(ctx, t, &all, "ap", "eu", "us")
				time.Sleep(2 * time.Second) // until the regions know what they renounced
				p.offer(23 * time.Second)
				cut(p.ways["ap"])
				p.offer(30 * time.Second)
				p.ways["ap"].up.Store(false)
				p.ways["ap"].down.Store(false)
				p.offer(35 * time.Second)
				p.check()
			})
		})
	}
}

func (p *planet) check() {
	p.t.Helper()
	const limit, share = 600, 99 // 166 thousandths, rounded down
	var burst int64              // what the bucket admitted beyond its rate until now
	for n := range 9 {
		var window, bucket int64
		for _, region := range p.names {
			w, b := p.of(region, n)
			window, bucket = window+w, bucket+b
		}
		ap, apBucket := p.of("ap", n)
		most, least := int64(limit), int64(limit*95/100)
		switch n {
		case 2: // cut in the middle, ap goes on at its share of the rate, but what it has on lease is stranded
			most, least = limit+share/2, limit*80/100
		case 3, 4: // of a share that nobody asks for 50 times a second nothing is left over
			least = limit * 90 / 100
		case 5, 6: // what it owes is taken from what it is granted, and its share is withheld until the window ends
			least = limit * 75 / 100
		}
		if window > most || window < least {
			p.t.Errorf("window %d: %d units, want %d to %d", n, window, least, most)
		}
		if burst = max(0, burst+bucket-limit); burst > 2*120 {
			p.t.Errorf("until window %d the bucket admitted %d units beyond its rate, want at most twice the burst", n, burst)
		}
		if n >= 7 && (ap < limit/4 || apBucket < limit/4) {
			p.t.Errorf("window %d: the region that was cut off has %d units, and %d of the bucket, want about a third of %d again", n, ap, apBucket, limit)
		}
		if cut := n == 3 || n == 4; cut && (ap != share || apBucket < share*8/10 || apBucket > share+120/6) {
			p.t.Errorf("window %d: the region that is cut off has %d units, and %d of the bucket; its share is %d", n, ap, apBucket, share)
		}
		p.t.Logf("window %d: %d, of these ap %d; bucket %d, of these ap %d", n, window, ap, bucket, apBucket)
	}
}
