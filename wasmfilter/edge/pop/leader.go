package pop

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// leadFor is how long a worker does the background work before it has to claim
	// it again. A worker that serves no requests (an Envoy's main thread) takes it
	// from one that does.
	leadFor lease.Millis = 1000
	// orphaned is after how long without a leader a fenced worker takes over: the
	// plugin that fenced it is gone.
	orphaned lease.Millis = 5000
)

// Leader is this worker's part in the choice of the worker that does the PoP's
// background work.
type Leader struct {
	Leads bool
	Busy  bool // requests came since the last tick: an idle worker should lead

	pop        *PoP
	config     uint64 // hash of this worker's plugin configuration
	generation uint64 // of the plugin configuration, see Enlist
}

// NewLeader returns the part of a worker with a plugin configuration of this hash; it still
// has to enlist.
func NewLeader(pop *PoP, config uint64) *Leader { return &Leader{pop: pop, config: config} }

// Enlist takes the number of the plugin configuration: that of the newest one if it
// is the same, the next number if it is another. Contexts of an old listener keep
// ticking for minutes while they drain; the number shows that they are old.
func (l *Leader) Enlist() {
	for range table.Tries {
		var r [2]uint64 // generation, hash of the configuration
		version := l.pop.Record(keyPlugin, r[:])
		if version != table.Absent && r[1] == l.config {
			l.generation = r[0]
			return
		}
		if l.pop.SetRecord(keyPlugin, version, r[0]+1, l.config) {
			l.generation = r[0] + 1
			return
		}
	}
}

// Fenced reports whether a newer plugin configuration is at work.
func (l *Leader) Fenced() bool {
	var r [2]uint64
	return l.pop.Record(keyPlugin, r[:]) != table.Absent && r[0] != l.generation
}

// Lead claims the background work, or keeps it; it is called once per tick.
func (l *Leader) Lead(now lease.Millis) bool {
	l.Leads = l.claim(now)
	l.Busy = false
	return l.Leads
}

func (l *Leader) claim(now lease.Millis) bool {
	var r [4]uint64 // number of the leader, until when, its generation, whether it serves requests
	version := l.pop.Record(keyLeader, r[:])
	until := lease.Millis(r[1])
	if l.Fenced() {
		if version == table.Absent || now < until+orphaned {
			return false
		}
		l.Enlist()
	}
	busy := limit.Bit(l.Busy)
	switch mine := r[0] == l.pop.Number; {
	case mine && r[3] == busy && now < until-leadFor/2:
		return true
	case mine, now >= until, r[2] < l.generation, r[3] > busy:
		return l.pop.SetRecord(keyLeader, version, l.pop.Number, uint64(now+leadFor), l.generation, busy)
	}
	return false
}
