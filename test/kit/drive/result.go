package drive

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Result is what one run has seen.
type Result struct {
	Elapsed time.Duration
	// Due is how many requests the rate asked for; in a closed loop, how many were
	// sent. What was neither answered nor failed was never sent: the servers or this driver were
	// too slow.
	Due    int64
	Done   int64 // answered
	Failed int64 // connection refused or broken, or reply not understood, or none in time

	Status     Statuses // the answers
	FirstError error    // of those that failed
	// Slowest is the longest time from the sending of a request to its answer.
	Slowest time.Duration
	// Rejected is when the last request was sent that was not answered with 200; zero: all were.
	Rejected time.Time
	// Stalled is how long this driver had no processor, in pauses of 0.1 s and more: what it did not
	// send or read then shows nothing of the servers.
	Stalled time.Duration
	// Seconds counts requests by the second (Unix time) in which they were sent; nil in
	// benchmarks.
	Seconds map[int64]Second
	// Latency is from when a request was due (closed loop: sent) to its answer, so
	// that a stall counts against every request that it delayed.
	Latency Latencies
}

// Latencies are some durations, each up to an hour.
type Latencies []uint32 // in µs

// Quantile is the smallest that the fraction q of them does not exceed, from 0 to 1; 0 if there are none.
func (l Latencies) Quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return time.Duration(l[int(q*float64(len(l)-1))]) * time.Microsecond
}

// Above is how many are longer than d.
func (l Latencies) Above(d time.Duration) (n int) {
	for _, took := range l {
		if time.Duration(took)*time.Microsecond > d {
			n++
		}
	}
	return n
}

// Second is what was sent in a second, and how much of it was answered with 200.
type Second struct {
	Sent, OK int64
	// Later is what of OK was answered after the second had ended, by the second (Unix time) of the
	// answer; nil: nothing.
	Later map[int64]int64
}

// Statuses counts answers by status code.
type Statuses [600]int64

// String leaves out what did not occur.
func (s Statuses) String() string {
	var b strings.Builder
	for status, n := range s {
		if n > 0 {
			fmt.Fprintf(&b, "%d:%d ", status, n)
		}
	}
	return strings.TrimSpace(b.String())
}

// Sent is the number of requests that were sent.
func (r *Result) Sent() int64 { return r.Done + r.Failed }

// OK is the number of answers with status 200.
func (r *Result) OK() int64 { return r.Status[200] }

// Other is the number of requests that were answered with none of the statuses,
// or not at all.
func (r *Result) Other(statuses ...int) int64 {
	n := r.Sent()
	for _, s := range statuses {
		n -= r.Status[s]
	}
	return n
}

// PerSecond is how many requests were sent per second.
func (r *Result) PerSecond() float64 { return float64(r.Sent()) / r.Elapsed.Seconds() }

// count adds a request that was sent and answered at these times to Seconds.
func (r *Result) count(sent, answered time.Time, ok bool) {
	second := r.Seconds[sent.Unix()]
	second.Sent++
	if ok {
		second.OK++
		if answered.Unix() > sent.Unix() {
			if second.Later == nil {
				second.Later = map[int64]int64{}
			}
			second.Later[answered.Unix()]++
		}
	} else if sent.After(r.Rejected) {
		r.Rejected = sent
	}
	r.Seconds[sent.Unix()] = second
}
