package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/stack"
)

// replica is one of several weir-regional that share a Redis.
type replica struct {
	*stack.Process
	t     *testing.T
	name  string
	argv  []string
	quota string // address of the QuotaService
	admin string
	http  *http.Client
}

// newReplica prepares a replica with these rules on free ports of this machine.
func newReplica(t *testing.T, name, rules string, redis []string, args ...string) *replica {
	t.Helper()
	r := &replica{t: t, name: name, quota: stack.FreeAddr(t), admin: stack.FreeAddr(t)}
	r.connectBy(new(net.Dialer).DialContext)
	r.argv = r.command(rules, redis, args...)
	return r
}

// command is the command line of a replica that serves at its addresses.
func (r *replica) command(rules string, redis []string, args ...string) []string {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return append([]string{stack.RegionProgram(r.t), "--rules", file, "--drain-wait", "0s",
		"--listen", r.quota, "--admin-listen", r.admin, "--redis", strings.Join(redis, ",")}, args...)
}

func (r *replica) connectBy(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}
	r.t.Cleanup(transport.CloseIdleConnections)
	r.http = &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// begin starts the replica without waiting for it.
func (r *replica) begin() {
	r.t.Helper()
	r.Process = stack.Run(r.t, r.name, r.argv...)
}

// start starts the replica and waits until it is ready.
func (r *replica) start() {
	r.t.Helper()
	r.begin()
	r.awaitReady()
}

func (r *replica) awaitReady() {
	r.t.Helper()
	stack.Eventually(r.t, 30*time.Second, r.name+" is ready", func() bool {
		if r.Exited() {
			r.t.Fatalf("%s exited while starting:\n%s", r.name, r.Log())
		}
		status, _ := r.ready()
		return status == http.StatusOK
	})
}

// ready is what /readyz says; 0: nothing.
func (r *replica) ready() (status int, text string) {
	resp, err := r.http.Get("http://" + r.admin + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // what is missing of it is not there
	return resp.StatusCode, string(body)
}

// metrics are the samples by name with labels.
func (r *replica) metrics() map[string]float64 {
	r.t.Helper()
	resp, err := r.http.Get("http://" + r.admin + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	samples := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			samples[name] = v
		}
	}
	return samples
}

// holder asks a replica for units, one call after the other.
type holder struct {
	of     *replica
	client quotapbconnect.QuotaServiceClient
	id     []byte
	seq    uint64
}

func (r *replica) newHolder() *holder {
	h := &holder{of: r, client: quotapbconnect.NewQuotaServiceClient(r.http, "http://"+r.quota), id: make([]byte, 16)}
	_, _ = rand.Read(h.id) // never fails
	return h
}

// callBudget is what a call has, as its caller tells the region. The caller itself
// waits on, to see that the answer comes in time.
const callBudget = 100 * time.Millisecond

// ask asks for one unit of a key. granted is 0 or 1; took is how long it took.
func (h *holder) ask(ctx context.Context, rule, key string) (status quotapb.Status, granted uint64, took time.Duration, err error) {
	h.seq++
	req := connect.NewRequest(&quotapb.AcquireRequest{
		Protocol: 1, Holder: h.id, Seq: h.seq,
		Wants: []*quotapb.Want{{Rule: rule, Key: []byte(key), Need: 1, Waiting: 1, Want: 1}},
	})
	req.Header().Set("Connect-Timeout-Ms", strconv.FormatInt(callBudget.Milliseconds(), 10))
	begin := time.Now()
	resp, err := h.client.Acquire(ctx, req)
	took = time.Since(begin)
	if err != nil {
		return 0, 0, took, err
	}
	g := resp.Msg.GetGrants()[0]
	return g.GetStatus(), g.GetGranted(), took, nil
}

// together runs so many at once and waits for all.
func together(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}

// drained asks for single units of a key at all replicas at once, from several
// holders each, until every one of them is denied, and returns what was granted. A
// call that could not be decided is made again: it may have been charged.
func drained(t *testing.T, rule, key string, replicas ...*replica) (units uint64, undecided int) {
	t.Helper()
	const each = 4
	var mu sync.Mutex
	together(each*len(replicas), func(i int) {
		h := replicas[i%len(replicas)].newHolder()
		for deadline := time.Now().Add(30 * time.Second); ; {
			status, granted, _, err := h.ask(t.Context(), rule, key)
			mu.Lock()
			units += granted
			if status == quotapb.Status_STATUS_UNAVAILABLE {
				undecided++
			}
			mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("%s: %v", h.of.name, err)
				return
			case status == quotapb.Status_STATUS_DENIED:
				return
			case status == quotapb.Status_STATUS_UNKNOWN_RULE:
				t.Errorf("%s does not know the rule %s", h.of.name, rule)
				return
			case time.Now().After(deadline):
				t.Errorf("%s: %s is neither spent nor denied: %v, %d units", h.of.name, key, status, units)
				return
			}
		}
	})
	return units, undecided
}
