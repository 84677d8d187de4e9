// Package uplink makes a worker's calls to the region: asks and reports gather on lanes, one per timeout, and go with the
// next call; answers come back as flights that have landed. Each lane has a breaker. The package also fetches the rules,
// and sends live reports.
//
// The package is pure: its owner makes the calls, through a [Port]. The package knows nothing of requests: an [Ask] knows
// its waiting requests.
package uplink

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Uplink is the way to the region: the lanes, and the calls in flight.
type Uplink struct {
	Holders int              // of the region, by its last reply; 0: unknown
	Share   reserve.PerMille // of the region in limits of scope global, by its last reply; 0: unknown
	Watch   Watch            // by its last replies
	Lost    bool             // the last report did not arrive

	cfg   *rulebook.Config
	port  *Port
	pop   *pop.PoP
	rules *rulebook.Rulebook

	sequence
	lanes   []*Lane
	flights map[uint64]*Flight // by ID of the call
	fetches []uint64           // calls for the rules that have not ended
	report  uint64             // the report that has not ended; 0: none
	flushed lease.Millis       // when Flush was called last

	request  wire.Request
	size     int // at most so many bytes of it are encoded
	response wire.Response
}

// New returns an uplink of which nothing is in flight.
func New(cfg *rulebook.Config, port *Port, pop *pop.PoP, rules *rulebook.Rulebook) *Uplink {
	return &Uplink{cfg: cfg, port: port, pop: pop, rules: rules, sequence: sequence{caller: pop.Number}, flights: map[uint64]*Flight{}}
}

// LaneFor returns the number of the lane for a timeout.
func (u *Uplink) LaneFor(timeout lease.Millis, shadow bool) int {
	for i, l := range u.lanes {
		if l.timeout == timeout && l.shadow == shadow {
			return i
		}
	}
	u.lanes = append(u.lanes, &Lane{timeout: timeout, shadow: shadow})
	return len(u.lanes) - 1
}

// Lane is the lane of a policy; not for scope: pop.
func (u *Uplink) Lane(p *rulebook.Policy) *Lane { return u.lanes[p.Lane] }

// Flush sends what has gathered, as far as few calls are in flight.
func (u *Uplink) Flush(now lease.Millis) {
	quiet := now >= u.flushed+gatherFor
	u.flushed = now
	for _, l := range u.lanes {
		for l.due(now, quiet) && u.mayCall(now, l) {
			u.send(now, l)
		}
		if l.soon && l.flying == 0 && !l.Open {
			u.send(now, l)
		}
	}
}

// Tick makes the calls for which no request waits: probes, give-backs and reports. A
// lane whose breaker is open sends an empty call, to see whether the region answers.
func (u *Uplink) Tick(now lease.Millis) {
	for _, l := range u.lanes {
		if l.flying == 0 && (l.ProbeDue(now) || !l.Open && l.reportsDue(now)) {
			l.Probed(now, u.pop.Jitter())
			u.send(now, l)
		}
	}
}

// Degraded is for how long the first of the breakers has been open that are now; 0: none is.
func (u *Uplink) Degraded(now lease.Millis) (d lease.Millis) {
	for _, l := range u.lanes {
		if l.Open {
			d = max(d, now-l.Since, 1)
		}
	}
	return d
}

// mayCall reports whether the lane may make one more call. Calls that take much longer than
// the last ones took do not count, within a bound: a replica that hangs must not keep the
// others from being asked.
func (u *Uplink) mayCall(now lease.Millis, l *Lane) bool {
	if l.flying < callsInFlight || l.flying >= lateShare*callsInFlight {
		return l.flying < callsInFlight
	}
	n := 0
	for _, f := range u.flights {
		if f.Lane == l && now-f.Sent < max(soonestLate, 4*l.took) {
			n++
		}
	}
	return n < callsInFlight
}

const (
	// callsInFlight is how many calls a lane may have under way. What is missed meanwhile travels with the next one.
	callsInFlight              = 4
	lateShare                  = 4 // times as many calls may be in flight where most are late
	soonestLate   lease.Millis = 10
)

// maxReports bounds what waits to be given back, or to be reported, per lane. Units beyond
// are lost until their leases end.
const maxReports = 2048

// Report has a report travel with the next call, if there is room for it.
func (u *Uplink) Report(r Report) {
	l := u.Lane(r.Policy)
	if l.later = 0; len(l.reports) < maxReports {
		r.Key.Text = append([]byte(nil), r.Key.Text...)
		l.reports = append(l.reports, r)
	}
}

// ReportLater is Report for the debt of a response, or for units that it has left: it waits up to a second for a call of others.
// Nothing for a want of neither.
func (u *Uplink) ReportLater(now lease.Millis, r Report) {
	if r.Want.Overdrawn+r.Want.Unused > 0 {
		l := u.Lane(r.Policy)
		later := l.wait(now)
		u.Report(r)
		l.later = later
	}
}

// GiveBack returns units with the next call.
func (u *Uplink) GiveBack(p *rulebook.Policy, key table.Key, part holder.Part) {
	if part.Units > 0 {
		u.Report(Report{Policy: p, Key: key, Want: lease.Want{Unused: part.Units, Lease: part.Lease}})
	}
}

// GiveBackLater is GiveBack for units that a response has left. Responses are many, and those of one key are one report,
// as far as a region believes it.
func (u *Uplink) GiveBackLater(now lease.Millis, p *rulebook.Policy, key table.Key, part holder.Part) {
	l := u.Lane(p)
	for i := range l.reports {
		if r := &l.reports[i]; !r.Account && r.Key.Hash == key.Hash && r.Want.Lease == part.Lease && r.Policy == p && !p.Terms.Lies(r.Want.Unused+part.Units) {
			r.Want.Unused += part.Units
			return
		}
	}
	u.ReportLater(now, Report{Policy: p, Key: key, Want: lease.Want{Unused: part.Units, Lease: part.Lease}})
}

// Settle tells with the next call that reserved units count.
func (u *Uplink) Settle(p *rulebook.Policy, key table.Key, part holder.Part) {
	if part.Units > 0 {
		u.Report(Report{Policy: p, Key: key, Want: lease.Want{Settled: part.Units, Lease: part.Lease}})
	}
}

// ReturnSoon returns units that were taken for a request that was rejected: others
// lack them meanwhile. They leave with the next call, at the latest when those in
// flight are answered.
func (u *Uplink) ReturnSoon(p *rulebook.Policy, key table.Key, part holder.Part) {
	l := u.Lane(p)
	l.soon = l.soon || part.Units > 0
	u.GiveBack(p, key, part)
}
