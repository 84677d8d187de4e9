//go:build linux

package shed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weirlimit/weir/test/load/rig"
)

// What the upstream can do. Its service times are long and its rates low, so that queues decide what a
// client sees, and not the processor.
const (
	replicas = 3
	servers  = 4                     // of each replica
	service  = 40 * time.Millisecond // in the mean; between a half and one and a half of it
	longest  = 2 * time.Second       // a replica rejects what would wait longer: 500
	full     = 100 * time.Millisecond
	capacity = replicas * servers * float64(time.Second) / float64(service) // requests per second
)

// upstream is the backend of one Envoy: replicas with a queue each.
type upstream struct {
	addrs []string
	all   [replicas]*replica
}

// replica has servers that work through one queue, first come, first served. The queue is virtual: when a
// request comes, it is known when it is done. A client that no longer waits does not shorten it.
type replica struct {
	mu     sync.Mutex
	free   [servers]time.Time // when each server has done what it has
	rng    *rand.Rand
	slower func() float64 // how many times longer work takes that comes now
	orca   bool           // answers state the load
}

func startUpstream(r *rig.Rig) *upstream {
	u := &upstream{}
	for i := range u.all {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		r.Must(err)
		u.all[i] = &replica{}
		u.all[i].reset(nil, false, 0)
		server := &http.Server{Handler: u.all[i], ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }() // ends with Close
		r.Cleanup(func() { _ = server.Close() })
		u.addrs = append(u.addrs, listener.Addr().String())
	}
	return u
}

// begin empties the queues for a scenario that begins now.
func (u *upstream) begin(s *scenario, p plan, now time.Time) {
	for i, r := range u.all {
		slower := func() float64 { return s.slowdown(p.at(time.Since(now)), i) }
		r.reset(slower, s.orca, uint64(i))
	}
}

func (r *replica) reset(slower func() float64, orca bool, seed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slower, r.orca, r.free, r.rng = slower, orca, [servers]time.Time{}, rand.New(rand.NewPCG(seed, servers))
}

// enqueue puts a request into the queue: how long it waits there, how long it takes in all, and whether
// there is place.
func (r *replica) enqueue(now time.Time) (waits, takes time.Duration, orca, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := 0
	for i, free := range r.free {
		if free.Before(r.free[next]) {
			next = i
		}
	}
	waits = max(r.free[next].Sub(now), 0)
	if waits > longest {
		return waits, 0, r.orca, false
	}
	work := float64(service) * (0.5 + r.rng.Float64())
	if r.slower != nil {
		work *= r.slower()
	}
	takes = waits + time.Duration(work)
	r.free[next] = now.Add(takes)
	return waits, takes, r.orca, true
}

// ServeHTTP answers when the request is done. The load that it states is how long the request waited, of
// what is meant to be the most.
func (r *replica) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	waits, takes, orca, ok := r.enqueue(time.Now())
	if orca {
		w.Header().Set("endpoint-load-metrics", fmt.Sprintf("TEXT application_utilization=%.3f", min(float64(waits)/float64(full), 1)))
	}
	if !ok {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	done := time.NewTimer(takes)
	defer done.Stop()
	select {
	case <-req.Context().Done(): // nobody waits for it any more
	case <-done.C:
		_, _ = w.Write([]byte("done\n"))
	}
}

// serves is the requests per second that the upstream can do at a time of a scenario.
func serves(s *scenario, at float64) (sum float64) {
	for i := range replicas {
		sum += capacity / replicas / s.slowdown(at, i)
	}
	return sum
}
