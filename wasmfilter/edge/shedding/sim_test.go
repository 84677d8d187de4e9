package shedding

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/shed"
)

// The model is an upstream behind a PoP, in virtual time of 1 ms. The workers of the PoP tick every 100 ms. bounds_test.go
// says what has to come out.

// model is a run.
type model struct {
	// The upstream: replicas with equal parts of the servers and a queue without bound each. Whoever waits for longer
	// than the timeout goes away, and the upstream does its work all the same.
	servers, replicas int
	slow              int64 // how many times slower the first replica is
	halves            int64 // ms after which half of the servers go away, and come back; 0: never
	broken            func(now int64) bool
	orca              func(now int64, busy float64) int64 // load that a response states; nil: none

	capacity, success int
	profile           shed.Profile
	workers           int
	stalls            func(worker int, now int64) bool // does not tick
	clock             func(now int64) lease.Millis     // of the PoP

	mix     [shed.Classes]float64   // parts of what is offered
	keys    [shed.Classes]int       // that send it
	offered func(now int64) float64 // in parts of what the upstream can do
	length  int64                   // ms
}

const (
	service = 200  // ms on average
	timeout = 2000 // ms
)

// job is a request that was admitted.
type job struct {
	worker, class, replica int
	held                   Held
	arrived                int64
	over                   bool
}

// event is the end of a job, or of its work, which are not the same after a timeout.
type event struct {
	*job
	done bool // by the upstream
}

// second is what happened in one; by class.
type second struct {
	offered, served [shed.Classes]int64 // of those that arrived in it
	done            int64               // responses in time
	could           float64             // what the upstream could do of what was offered
}

// run is a model as it runs.
type run struct {
	model
	*crowd
	*rand.Rand
	users   [shed.Classes][][]byte
	queues  [][]*job
	running []int
	due     [][]event // by ms

	inFlight, most int
	seconds        []second
	ratios         []float64 // one a tick
}

func (m model) run(t *testing.T) *run {
	fields := fmt.Sprintf(`"profile":%q,`, m.profile)
	if m.success > 0 {
		fields += fmt.Sprintf(`"success":%d,`, m.success)
	}
	r := &run{model: m, crowd: newCrowd(t, m.workers, m.capacity, "", fields), Rand: rand.New(rand.NewPCG(1, 1))}
	for class, n := range m.keys {
		for i := range n {
			r.users[class] = append(r.users[class], fmt.Append(nil, class, i))
		}
	}
	r.queues, r.running = make([][]*job, m.replicas), make([]int, m.replicas)
	r.due, r.seconds = make([][]event, m.length), make([]second, m.length/1000)
	for now := range m.length {
		r.crowd.now = m.clock(now)
		r.step(now)
	}
	return r
}

func (r *run) step(now int64) {
	for w, worker := range r.crowd.workers {
		if (now+int64(w)*37)%100 == 0 && !r.stalls(w, now) {
			worker.Tick(r.crowd.now)
		}
	}
	if now%100 == 50 {
		r.ratios = append(r.ratios, float64(r.rule(0).Ratio)/shed.Million)
	}
	for _, e := range r.due[now] {
		r.end(e, now)
	}
	offered := float64(r.servers) / service * r.offered(now)
	r.seconds[now/1000].could += min(offered, r.rate(now))
	for class, part := range r.mix {
		for range r.poisson(offered * part) {
			r.arrive(class, now)
		}
	}
	for i := range r.queues {
		r.begin(i, now)
	}
	r.most = max(r.most, r.inFlight)
}

// serversOf is how many servers a replica has.
func (r *run) serversOf(replica int, now int64) int {
	n := r.servers / r.replicas
	if r.halves > 0 && now/r.halves%2 == 1 {
		n /= 2
	}
	return n
}

// rate is how many requests the upstream can serve in a ms.
func (r *run) rate(now int64) (rate float64) {
	if r.broken(now) {
		return 0
	}
	for i := range r.replicas {
		of := float64(r.serversOf(i, now)) / service
		if i == 0 {
			of /= float64(r.slow)
		}
		rate += of
	}
	return rate
}

func (r *run) poisson(mean float64) (n int) {
	for p, limit := r.Float64(), math.Exp(-mean); p > limit; p *= r.Float64() {
		n++
	}
	return n
}

func (r *run) at(now int64, e event) {
	if now < r.length {
		r.due[now] = append(r.due[now], e)
	}
}

func (r *run) arrive(class int, now int64) {
	j := &job{worker: r.IntN(r.model.workers), class: class, arrived: now}
	r.seconds[now/1000].offered[class]++
	rejected := false
	user := r.users[class][r.IntN(len(r.users[class]))]
	if j.held, rejected = r.crowd.workers[j.worker].Of(0).Enter(r.crowd.now, &rule.ShedHit{Class: shed.Class(class), Key: user}); rejected {
		return
	}
	r.inFlight++
	for i := range r.queues { // least requests
		if len(r.queues[i])+r.running[i] < len(r.queues[j.replica])+r.running[j.replica] {
			j.replica = i
		}
	}
	r.queues[j.replica] = append(r.queues[j.replica], j)
	r.at(now+timeout, event{j, false})
}

func (r *run) begin(replica int, now int64) {
	for r.running[replica] < r.serversOf(replica, now) && len(r.queues[replica]) > 0 {
		j := r.queues[replica][0]
		r.queues[replica] = r.queues[replica][1:]
		r.running[replica]++
		lasts := service/2 + r.Int64N(service+1)
		if replica == 0 {
			lasts *= r.slow
		}
		r.at(now+lasts, event{j, true})
	}
}

func (r *run) end(e event, now int64) {
	busy := float64(r.running[e.replica]) / float64(r.serversOf(e.replica, now))
	if e.done {
		r.running[e.replica]--
	}
	if e.over {
		return
	}
	good := e.done && !r.broken(now)
	e.over = true
	e.held.Leave()
	r.inFlight--
	if good {
		r.seconds[now/1000].done++
		r.seconds[e.arrived/1000].served[e.class]++
	}
	if held := []Held{e.held}; r.crowd.workers[e.worker].Samples(held) {
		load := int64(-1)
		if r.orca != nil && e.done {
			load = r.orca(now, busy)
		}
		r.crowd.workers[e.worker].Responded(r.crowd.now, held, !good, load)
	}
}
