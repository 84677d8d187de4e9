package shed

import (
	"math"
	"math/rand/v2"
)

// The model is an upstream behind a PoP, in virtual time of 1 ms. The workers of the PoP share a record, which each of
// them reads and writes every 100 ms; between two ticks a worker may add its part of what was free. bounds_test.go
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

	capacity, success int64
	profile           Profile
	workers           int
	stalls            func(worker int, now int64) bool // does not tick
	clock             func(now int64) int64            // of the PoP, in ms

	mix     [Classes]float64        // parts of what is offered
	keys    [Classes]int            // that send it
	offered func(now int64) float64 // in parts of what the upstream can do
	length  int64                   // ms
}

const (
	service = 200  // ms on average
	timeout = 2000 // ms
)

// stream is a request that was admitted.
type stream struct {
	worker, class, cohort, replica int
	arrived                        int64
	over                           bool
}

// event is the end of a stream, or of its work, which are not the same after a timeout.
type event struct {
	*stream
	done bool // by the upstream
}

// row is what a worker tells the others.
type row struct {
	at, inFlight, rate int64
	sums               Sums
}

type worker struct {
	seen              Seen
	responses         Responses
	cut               Cut
	own, ownAt, total int64 // in flight: now, at the last look, and then of all workers
	sharers, looked   int64
	offered, second   int64
}

// second is what happened in one; by class.
type second struct {
	offered, served, byRatio, byRoom [Classes]int64 // of those that arrived in it
	done                             int64          // responses in time
	could                            float64        // what the upstream could do of what was offered
}

// run is a model as it runs.
type run struct {
	model
	*rand.Rand
	queues  [][]*stream
	running []int
	due     [][]event // by ms
	rows    []row
	workers []worker

	updated, level, ratio, used int64
	inFlight, most              int64
	seconds                     []second
	ratios                      []float64 // one a tick
}

func (m model) run() *run {
	r := &run{model: m, Rand: rand.New(rand.NewPCG(1, 1)), level: m.profile.Lowest(), updated: m.clock(0)}
	r.queues, r.running = make([][]*stream, m.replicas), make([]int, m.replicas)
	r.due, r.seconds = make([][]event, m.length), make([]second, m.length/1000)
	r.rows, r.workers = make([]row, m.workers), make([]worker, m.workers)
	for i := range r.workers {
		r.workers[i].sharers = int64(m.workers)
	}
	for now := range m.length {
		r.step(now)
	}
	return r
}

func (r *run) step(now int64) {
	for w := range r.workers {
		if (now+int64(w)*37)%100 == 0 && !r.stalls(w, now) {
			r.tick(&r.workers[w], &r.rows[w], r.clock(now))
		}
	}
	if now%100 == 50 {
		r.ratios = append(r.ratios, float64(r.ratio)/Million)
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
	s := &stream{worker: r.IntN(r.model.workers), class: class, cohort: Cohort(uint64(r.IntN(r.keys[class])), 1), arrived: now}
	w, sec := &r.workers[s.worker], &r.seconds[now/1000]
	sec.offered[class]++
	w.offered++
	w.seen.Add(r.clock(now), Class(class), s.cohort)
	switch {
	case w.cut.Refuses(Class(class), s.cohort, r.Int64N(Million)):
		sec.byRatio[class]++
		return
	case !r.room(w, &r.rows[s.worker], class, r.clock(now)):
		sec.byRoom[class]++
		return
	}
	w.own++
	r.inFlight++
	for i := range r.queues { // least requests
		if len(r.queues[i])+r.running[i] < len(r.queues[s.replica])+r.running[s.replica] {
			s.replica = i
		}
	}
	r.queues[s.replica] = append(r.queues[s.replica], s)
	r.at(now+timeout, event{s, false})
}

// room reports whether a worker may admit a request of a class. Before it refuses a critical one, it looks at the
// record again, at most every 10 ms.
func (r *run) room(w *worker, of *row, class int, now int64) bool {
	shares := [Classes]int64{Bulk: 40, Low: 60, Normal: 80, Critical: 100}
	may := func() bool {
		free := Room(r.capacity, shares[class]) - w.total
		part := free / w.sharers
		if free > 0 {
			part = max(part, 1)
		}
		return w.own < w.ownAt+part
	}
	if !may() && class == int(Critical) && now-w.looked >= 10 {
		r.look(w, of, now)
	}
	return may()
}

func (r *run) begin(replica int, now int64) {
	for r.running[replica] < r.serversOf(replica, now) && len(r.queues[replica]) > 0 {
		s := r.queues[replica][0]
		r.queues[replica] = r.queues[replica][1:]
		r.running[replica]++
		lasts := service/2 + r.Int64N(service+1)
		if replica == 0 {
			lasts *= r.slow
		}
		r.at(now+lasts, event{s, true})
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
	w, good := &r.workers[e.worker], e.done && !r.broken(now)
	e.over = true
	w.own--
	r.inFlight--
	if good {
		r.seconds[now/1000].done++
		r.seconds[e.arrived/1000].served[e.class]++
	}
	if r.IntN(16) == 0 {
		load := int64(-1)
		if r.orca != nil && e.done {
			load = r.orca(now, busy)
		}
		w.responses.Add(r.clock(now), e.cohort, !good, load)
	}
}

// young reports whether a row is no older than so many ms, nor of the future: the clock was set back.
func (o row) young(now, millis int64) bool { return now >= o.at && now-o.at <= millis }

// look has a worker write what it has in flight, and read what the others have.
func (r *run) look(w *worker, of *row, now int64) {
	of.at, of.inFlight = now, w.own
	w.ownAt, w.looked, w.total, w.sharers = w.own, now, 0, 0
	for i, o := range r.rows {
		if o.young(now, 10_000) {
			w.total += o.inFlight
			if o.inFlight > 0 || &r.rows[i] == of {
				w.sharers++
			}
		}
	}
}

func (r *run) tick(w *worker, of *row, now int64) {
	if now/1000 != w.second {
		of.rate, w.offered, w.second = w.offered, 0, now/1000
	}
	of.sums = w.responses.Sums(now)
	r.look(w, of, now)
	if now-r.updated >= 100 || now < r.updated {
		var sums Sums
		for _, o := range r.rows {
			if o.young(now, 2000) {
				sums.Load, sums.Loads = sums.Load+o.sums.Load, sums.Loads+o.sums.Loads
				sums.Failed, sums.Count = sums.Failed+o.sums.Failed, sums.Count+o.sums.Count
			}
		}
		r.used = Utilization(w.total, r.capacity, r.success, sums)
		r.level = r.profile.Next(r.level, now-r.updated, r.used)
		r.updated, r.ratio = now, r.profile.Ratio(r.level)
	}
	var rate int64
	for _, o := range r.rows {
		rate += o.rate
	}
	if w.cut = (Cut{}); rate >= 5 {
		w.cut = w.seen.Cut(now, r.ratio)
	}
}
