package edge

import (
	"github.com/weirlimit/weir/internal/lease"
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

// leader is this worker's part in the choice of the worker that does the PoP's
// background work.
type leader struct {
	pop *pop
	cfg *Config

	generation uint64 // of the plugin configuration, see enlist
	leads      bool
	busy       bool // requests came since the last tick: an idle worker should lead
}

// enlist takes the number of the plugin configuration: that of the newest one if it
// is the same, the next number if it is another. Contexts of an old listener keep
// ticking for minutes while they drain; the number shows that they are old.
func (l *leader) enlist() {
	for range table.Tries {
		var r [2]uint64 // generation, hash of the configuration
		version := l.pop.record64(keyPlugin, r[:])
		if version != table.Absent && r[1] == l.cfg.hash {
			l.generation = r[0]
			return
		}
		if l.pop.setRecord64(keyPlugin, version, r[0]+1, l.cfg.hash) {
			l.generation = r[0] + 1
			return
		}
	}
}

// fenced reports whether a newer plugin configuration is at work.
func (l *leader) fenced() bool {
	var r [2]uint64
	return l.pop.record64(keyPlugin, r[:]) != table.Absent && r[0] != l.generation
}

// lead claims the background work, or keeps it; it is called once per tick.
func (l *leader) lead(now lease.Millis) bool {
	l.leads = l.claim(now)
	l.busy = false
	return l.leads
}

func (l *leader) claim(now lease.Millis) bool {
	var r [4]uint64 // number of the leader, until when, its generation, whether it serves requests
	version := l.pop.record64(keyLeader, r[:])
	until := lease.Millis(r[1])
	if l.fenced() {
		if version == table.Absent || now < until+orphaned {
			return false
		}
		l.enlist()
	}
	busy := word(l.busy)
	switch mine := r[0] == l.pop.number; {
	case mine && r[3] == busy && now < until-leadFor/2:
		return true
	case mine, now >= until, r[2] < l.generation, r[3] > busy:
		return l.pop.setRecord64(keyLeader, version, l.pop.number, uint64(now+leadFor), l.generation, busy)
	}
	return false
}

// word is a bool in a record.
func word(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
