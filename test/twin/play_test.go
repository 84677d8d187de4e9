package twin

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/ratelimit"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// pair is both services, with the same configurations.
type pair struct {
	mode mode
	peer *peer
	weir rlspb.RateLimitServiceClient
	// mutate changes what Weir answers; nil: nothing. For the test that differences are seen.
	mutate func(*rlspb.RateLimitResponse)

	asked atomic.Int64 // requests

	mu        sync.Mutex
	explained map[string]int // how many answers, by line
}

func domainOf(i int) string { return fmt.Sprintf("d%d", i) }

// start starts both with a domain for each configuration.
func start(t testing.TB, m mode, configs ...[]*node) *pair {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	for i, c := range configs {
		proc.WriteFile(t, filepath.Join(dir, domainOf(i)+".yaml"), file(t, domainOf(i), c))
	}
	return &pair{mode: m, peer: startPeer(t, dir), weir: startWeir(t, m, dir), explained: map[string]int{}}
}

type difference struct {
	at               int // the request
	theirs, expected answer
	ours             answer
}

// play asks both the same. It ends at the first difference.
func (p *pair) play(t testing.TB, domain string, config []*node, requests []*rlspb.RateLimitRequest) *difference {
	t.Helper()
	proc.AwaitWindow(time.Hour, time.Minute) // of an hour are all windows; what is played takes longer on a busy machine
	counters := map[string]*counter{}
	for i, r := range requests {
		request := proto.CloneOf(r)
		switch request.Domain {
		case "":
			request.Domain = domain
		case noDomain:
			request.Domain = ""
		}
		theirs, charges := p.peer.ask(t, request)
		p.asked.Add(1)
		x := &exchange{mode: p.mode, request: request, theirs: theirs}
		if theirs.err == nil {
			x.describe(config, charges, counters)
		}
		explained, ok := p.putTo(t, x)
		for deadline := time.Now().Add(comesBack); !ok && x.mayChange() && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
			x.again = true
			if explained, ok = p.putTo(t, x); ok {
				explained = append(explained, costsNothing)
			}
		}
		if !ok {
			return &difference{i, theirs, answer{x.response, theirs.err}, x.weir}
		}
		p.explain(explained)
		for _, c := range x.settle() {
			p.peer.redis.Do("DECRBY", c.key, c.hits)
		}
	}
	return nil
}

// explain counts what lines explained.
func (p *pair) explain(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range lines {
		p.explained[name]++
	}
}

// comesBack is how long a unit may lie on lease in a replica that has no use for it.
const comesBack = 20 * time.Second

// putTo asks Weir, and returns the lines that explain its answer, and whether they do.
func (p *pair) putTo(t testing.TB, x *exchange) (explained []string, ok bool) {
	x.weir = ask(t, p.weir, x.request)
	if x.weir.err == nil && p.mutate != nil {
		p.mutate(x.weir.response)
	}
	x.now = time.Now().Unix()
	return x.judge()
}

// judge finds the lines by which Weir's answer is the one it has to give, and reports whether it is.
func (x *exchange) judge() (explained []string, ok bool) {
	x.response = proto.CloneOf(x.theirs.response)
	if x.again { // the window is nearer to its end than it was there
		for _, st := range x.response.GetStatuses() {
			if st.DurationUntilReset != nil {
				st.DurationUntilReset = x.untilReset(st.CurrentLimit)
			}
		}
	}
	for i := range x.parts {
		p := &x.parts[i]
		p.back, p.spent = 0, false
		p.after, p.charged = p.counted+p.hits, p.counter != nil
	}
	if x.theirs.err == nil {
		explained = x.expect()
	}
	return explained, same(answer{x.response, x.theirs.err}, x.weir)
}

// report lists all that has a part in a difference.
func report(t testing.TB, s scenario, d *difference) string {
	var b strings.Builder
	requests := s.requests[:d.at+1]
	fmt.Fprintf(&b, "seed %d\n%s", s.seed, file(t, "d", s.config))
	for _, r := range requests {
		fmt.Fprintf(&b, "%s\n", text(r))
	}
	fmt.Fprintf(&b, "envoyproxy/ratelimit: %v\nexpected of Weir:     %v\nWeir:                 %v\n", d.theirs, d.expected, d.ours)
	return b.String()
}

type mode struct {
	store string // memory, redis or cluster
	flags string // "", exact or charge-rejected
}

func (m mode) chargesRejected() bool { return m.flags == "charge-rejected" }

// startWeir starts a region of one replica with a directory of configurations.
func startWeir(t testing.TB, m mode, dir string) rlspb.RateLimitServiceClient {
	t.Helper()
	var flags []string
	switch m.flags {
	case "exact":
		flags = append(flags, "--ratelimit-consistency", "exact")
	case "charge-rejected":
		flags = append(flags, "--ratelimit-charge-rejected")
	}
	switch m.store {
	case "redis":
		flags = append(flags, "--redis", redistest.Start(t).Addr)
	case "cluster":
		flags = append(flags, "--redis", strings.Join(redistest.StartCluster(t, 3, 0).Addrs(), ","))
	}
	rls, admin := proc.FreeAddr(t), proc.FreeAddr(t)
	argv := []string{region.Program(t), "--ratelimit-config", dir, "--rls-listen", rls,
		"--listen", proc.FreeAddr(t), "--admin-listen", admin, "--drain-wait", "0s", "--state", "off",
		"--rls-headers", "--rls-metadata", "--log-level", "error", "--rls-budget", "10s", "--redis-timeout", "10s"}
	process := proc.Start(t, proc.LogDir(t), "region", append(argv, flags...)...)
	process.AwaitReady("http://" + admin + "/readyz")
	return dial(t, rls)
}

// peer is an envoyproxy/ratelimit with a Redis of its own.
type peer struct {
	client rlspb.RateLimitServiceClient
	redis  *redistest.Server
	tap    *tap
}

// startPeer starts envoyproxy/ratelimit with a directory of configurations.
func startPeer(t testing.TB, dir string) *peer {
	t.Helper()
	p := &peer{redis: redistest.Start(t)}
	p.tap = newTap(t, p.redis)
	addr := proc.FreeAddr(t)
	ratelimit.Start(t, proc.LogDir(t), "ratelimit", addr, dir, "REDIS_TYPE=SINGLE", "REDIS_URL="+p.redis.Addr, "REDIS_POOL_SIZE=2",
		"DISABLE_STATS=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true")
	p.client = dial(t, addr)
	return p
}

// ask asks, and returns what was charged for the answer.
func (p *peer) ask(t testing.TB, request *rlspb.RateLimitRequest) (answer, []charge) {
	a := ask(t, p.client, request)
	return a, p.tap.taken(t, request.Domain)
}

func dial(t testing.TB, addr string) rlspb.RateLimitServiceClient {
	t.Helper()
	conn := fatal.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return rlspb.NewRateLimitServiceClient(conn)
}

type answer struct {
	response *rlspb.RateLimitResponse
	err      error
}

// ask has a deadline that no busy machine meets.
func ask(t testing.TB, client rlspb.RateLimitServiceClient, request *rlspb.RateLimitRequest) answer {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := client.ShouldRateLimit(ctx, request)
	return answer{r, err}
}
