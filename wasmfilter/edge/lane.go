package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// lane is the way to the tier above for all rules with the same timeout, enforced
// and shadow rules apart: what is to travel, and the breaker of its calls. While the
// breaker is open a lane makes no calls but probes.
type lane struct {
	timeout lease.Millis
	shadow  bool
	port    *Port

	gathered []*ask
	since    lease.Millis // when the first of what has gathered did
	urgent   bool         // requests wait for what has gathered
	returns  []returned
	soon     bool // some of returns were taken for requests that were refused
	findings []finding
	flying   int // calls in flight

	breaker
}

// returned is units to give back that are in no account any more.
type returned struct {
	policy *policy
	key    table.Key
	part   lease.Part
}

// finding is what the background scan found to report of a key.
type finding struct {
	policy *policy
	key    table.Key
	want   lease.Want
}

// gather puts an ask on the lane.
func (l *lane) gather(now lease.Millis, a *ask) {
	if len(l.gathered) == 0 {
		l.since = now
	}
	l.gathered = append(l.gathered, a)
}

// Asks for which nobody waits gather for a moment: a call costs as much as some
// thirty wants do, and a holder tops up with a quarter of a lease left.
const (
	gatherFor  = lease.Millis(10)
	gatherMost = 64
)

// due reports whether what has gathered should travel.
func (l *lane) due(now lease.Millis) bool {
	n := len(l.gathered)
	return n > 0 && (l.urgent || n >= gatherMost || now >= l.since+gatherFor)
}

// giveBack returns units with the next call.
func (l *lane) giveBack(p *policy, key table.Key, part lease.Part) {
	if part.Units == 0 {
		return
	}
	if len(l.returns) >= mostReturns {
		l.port.Counts.Lost += uint64(part.Units)
		return
	}
	key.Text = append([]byte(nil), key.Text...)
	l.returns = append(l.returns, returned{p, key, part})
}

// returnSoon returns units that were taken for a request that was refused: others
// lack them meanwhile. They leave with the next call, at the latest when those in
// flight are answered.
func (l *lane) returnSoon(p *policy, key table.Key, part lease.Part) {
	if part.Units > 0 {
		l.giveBack(p, key, part)
		l.soon = true
	}
}

// report queues a finding of the scan for the next call.
func (l *lane) report(found finding) {
	if len(l.findings) < mostReturns {
		l.findings = append(l.findings, found)
	} else {
		l.port.Counts.Lost += uint64(found.want.Unused)
	}
}

// A breaker opens after so many calls in a row that nobody answered, and is tried
// every probeEvery.
const (
	breakerErrors              = 3
	probeEvery    lease.Millis = 100
)

// breaker is what the last calls showed of the tier above.
type breaker struct {
	open    bool
	errors  int          // calls that failed, none of which was followed by one with an answer
	latest  uint64       // the last call that was answered
	took    lease.Millis // about the longest of the last answers
	probeAt lease.Millis // when open
}

// answered closes the breaker.
func (b *breaker) answered(seq uint64, took lease.Millis) {
	b.open, b.errors, b.latest = false, 0, max(b.latest, seq)
	b.took = max(took, b.took-(b.took+7)/8)
}

// failed counts a call that failed or hung, and opens the breaker if that is enough. A
// call that was followed by one with an answer tells nothing of the region: one of its
// replicas may hang while the others answer.
func (b *breaker) failed(now lease.Millis, seq uint64) {
	if seq < b.latest {
		return
	}
	if b.errors++; b.errors >= breakerErrors {
		if !b.open {
			b.probeAt = now + probeEvery
		}
		b.open = true
	}
}
