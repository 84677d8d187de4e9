package uplink

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Lane is the way to the region for all rules with the same timeout, enforced
// and shadow rules apart: what is to travel, and the breaker of its calls. While the
// breaker is open a lane makes no calls but probes.
type Lane struct {
	holder.Breaker

	timeout lease.Millis
	shadow  bool

	gathered []Ask
	since    lease.Millis // when the first of what has gathered did
	urgent   bool         // requests wait for what has gathered
	reports  []Report     // units to give back, and what the background scan found
	soon     bool         // some of reports are of units that were taken for requests that were rejected
	later    lease.Millis // until then reports wait for a call of others; 0: they do not
	flying   int          // calls in flight
	took     lease.Millis // about the longest of the last answers
}

// Ask is a key that the worker asks the region for: first gathered on a lane, to travel
// with the next call, then in flight.
type Ask interface {
	// Length is how many bytes the names of its rule and its key have.
	Length() int
	// Deadline is the earliest deadline of the requests that wait for it; lease.Never: none
	// waits.
	Deadline() lease.Millis
	// Leave makes the want that travels with call f, which is sent now.
	Leave(now lease.Millis, f *Flight) wire.Want
}

// Report is a want that asks for nothing.
type Report struct {
	Policy  *rulebook.Policy
	Key     table.Key
	Want    lease.Want
	Account bool // the account of the key takes the answer
}

// Gather puts an ask on the lane.
func (l *Lane) Gather(now lease.Millis, a Ask) {
	if len(l.gathered) == 0 {
		l.since = now
	}
	l.gathered = append(l.gathered, a)
}

// MarkUrgent lets what has gathered travel at once: a request waits for it.
func (l *Lane) MarkUrgent() { l.urgent = true }

// Drop takes what has gathered off the lane: calls for it will not be made, because the
// breaker is open.
func (l *Lane) Drop() (gathered []Ask) {
	gathered = l.gathered
	l.gathered, l.urgent = nil, false
	return gathered
}

// Asks for which no request waits gather for a moment: a call costs as much as some
// thirty wants do, and a holder tops up with a quarter of a lease left.
const (
	gatherFor   = lease.Millis(10)
	maxGathered = 64
)

// due reports whether what has gathered should travel. A worker with few requests, a quiet one,
// lets nothing gather: its next chance to send may come too late.
func (l *Lane) due(now lease.Millis, quiet bool) bool {
	n := len(l.gathered)
	return n > 0 && (quiet || l.urgent || n >= maxGathered || now >= l.since+gatherFor)
}

// settleFor is how long what responses have settled waits for another call: so it makes about one call a second.
const settleFor lease.Millis = 1000

// wait is until when something that a response has settled may wait: others may not wait so long.
func (l *Lane) wait(now lease.Millis) lease.Millis {
	if len(l.reports) == 0 {
		return now + settleFor
	}
	return l.later
}

// reportsDue reports whether reports need a call of their own.
func (l *Lane) reportsDue(now lease.Millis) bool {
	n := len(l.reports)
	return n > 0 && now >= l.later || n >= maxWants/2
}

// late reports whether a request that waits for the ask has much less time left than the
// lane has for a call. A call ends with the time of the first request that it is for, and
// those that have come just now must not lose theirs.
func (l *Lane) late(now lease.Millis, a Ask) bool { return 8*(a.Deadline()-now) < 7*l.timeout }
