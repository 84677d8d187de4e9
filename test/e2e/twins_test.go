package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const twinRules = `
rules:
  - { name: shared, match: { path: /shared }, key: [], limit: 300/1d, timeout: 1s, algorithm: fixed_window, on_failure: deny }
  - { name: own, match: { path: /own }, key: [{ header: x-user }], limit: 10/1d, timeout: 1s, algorithm: fixed_window, consistency: exact, on_failure: deny }
`

// copied makes the calls of a second PoP look as if it were a copy of the first, with its id and the
// numbers of its workers, as one of a running virtual machine has them. An id is random, so there is no
// other way to one that two programs have.
type copied struct {
	t      *testing.T
	region *region.Region

	mu      sync.Mutex
	process []byte      // first half of the id of the first PoP
	workers [2][]uint64 // that have called, of each
}

// through starts a way to the region for one of the two.
func (c *copied) through(which int) (addr string) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.pass(which, w, r) }))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	c.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (c *copied) pass(which int, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.URL.Path == quotapbconnect.QuotaServiceAcquireProcedure {
		body, err = c.rename(which, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+c.region.Addr+r.URL.Path, bytes.NewReader(body))
	out.Header = r.Header.Clone()
	answer, err := c.region.HTTP.Do(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // the PoP has gone
}

// errEarly keeps a copy from calling before there is something to copy.
type errEarly struct{}

func (errEarly) Error() string { return "the other PoP has not called yet" }

// rename gives a call the id of the first PoP, and the number of its worker that called first, or second.
func (c *copied) rename(which int, body []byte) ([]byte, error) {
	var q wire.Request
	if err := q.Decode(body); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.workers[which], q.Worker)
	if i < 0 {
		i, c.workers[which] = len(c.workers[which]), append(c.workers[which], q.Worker)
	}
	if which == 0 {
		c.process = bytes.Clone(q.Holder[:8])
		return body, nil
	}
	if i >= len(c.workers[0]) {
		return nil, errEarly{}
	}
	q.Worker = c.workers[0][i]
	q.Holder = binary.LittleEndian.AppendUint64(bytes.Clone(c.process), q.Worker)
	return q.Append(nil), nil
}

// holder is what the region knows the two by.
func (c *copied) holder() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hex.EncodeToString(append(bytes.Clone(c.process), make([]byte, 8)...))
}

// TestTwoPoPsWithOneID: a PoP and a copy of it serve requests beside a third one. The region counts that they
// have one id, and one line of its log names it and where both call from. All three admit no more than the
// limit, and the third one gets an answer to each of its calls.
func TestTwoPoPsWithOneID(t *testing.T) {
	awaitDay()
	r := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: twinRules})
	r.Start()
	c := &copied{t: t, region: r}
	ways := []string{c.through(0), c.through(1), r.Addr}
	n := 0
	s := stack.Start(t, stack.Config{PoPs: 3, Workers: 1, RegionAddr: r.Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", ways[n])
		n++
	}})
	awaitRules(t, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var twins sync.WaitGroup
	var own, shared [2]*drive.Result
	for i := range 2 {
		load := func(perSecond float64, request func([]byte, int64) []byte) *drive.Result {
			tally, _ := drive.Run(ctx, drive.Load{Addrs: s.Addrs()[i : i+1], Conns: 4, Until: time.Now().Add(4 * time.Minute), PerSecond: perSecond, Request: request})
			return tally
		}
		twins.Go(func() { own[i] = load(50, drive.GetEach("/own", "x-user", strings.Repeat("u", i+1))) })
		twins.Go(func() { shared[i] = load(10, drive.Get("/shared")) })
	}
	third := &stack.Stack{PoPs: s.PoPs[2:]}
	bystanders := 0
	proc.Eventually(t, 2*time.Minute, "two PoPs with one id are counted", func() bool {
		bystanders++
		bystander(t, third, "/own", "b"+strings.Repeat("x", bystanders), 0)
		return r.Metrics()["weir_holder_id_conflicts_total"] > 20
	})
	stop()
	twins.Wait()
	rest := try(t, drive.Load{Addrs: third.Addrs(), Conns: 4, Count: 600, Request: drive.Get("/shared")})
	t.Logf("%v calls were dropped, and %v of them show two processes; the two answered %v and %v, of the shared limit %v and %v, the third PoP %v; %d bystanders",
		r.Metrics()["weir_acquire_duplicates_total"], r.Metrics()["weir_holder_id_conflicts_total"], own[0].Status, own[1].Status, shared[0].Status, shared[1].Status, rest.Status, bystanders)
	if sum := shared[0].OK() + shared[1].OK() + rest.OK(); sum > 300 {
		t.Errorf("%d units of 300 were admitted", sum)
	}
	if rest.Other(200, 429) > 0 {
		t.Errorf("the third PoP answered %v", rest.Status)
	}
	told := 0
	for line := range strings.Lines(r.Log()) {
		if strings.Contains(line, "two processes call as one holder") {
			told++
			if !strings.Contains(line, c.holder()) || strings.Count(line, "127.0.0.1:") < 2 {
				t.Errorf("no %s, or not two addresses, in %s", c.holder(), line)
			}
		}
	}
	if told < 1 || told > 4 { // the test may have taken minutes
		t.Errorf("%d lines of the log tell of the two", told)
	}
}
