package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

const (
	// leadFor is how long a worker does the background work before it has to claim
	// it again. One that serves no requests (an Envoy's main thread) takes it from
	// one that does.
	leadFor lease.Millis = 1000
	// orphaned is after how long without a leader a fenced worker takes over: the
	// plugin that fenced it is gone.
	orphaned lease.Millis = 5000
	// scanTicks is in how many ticks the leader has looked through the table once.
	scanTicks = 100
)

// Tick does what is due without a request; the owner calls it every 100 ms.
func (w *Worker) Tick(now lease.Millis, wall limit.Micros) {
	w.SetClock(now, wall)
	w.readEpoch()
	w.settleParked(now)
	w.expire(now)
	w.renewSlots(now)
	w.watchRules(now)
	if w.leader = w.lead(now); w.leader {
		w.scan(now)
	}
	w.decidedLately = false
	for _, l := range w.lines {
		if l.flying == 0 && (l.open && now >= l.probeAt || !l.open && len(l.backs)+len(l.reports) > 0) {
			l.probeAt = now + probeEvery*w.jitter()/100
			w.send(now, l) // an open line sends nothing but itself: is anybody there?
		}
	}
	w.flush(now)
}

// Leader reports whether the worker does the PoP's background work.
func (w *Worker) Leader() bool { return w.leader }

// enlist takes a number for the plugin configuration: its own if the newest one is
// the same, the next if it is another. Contexts of an old listener keep ticking
// for minutes while they drain; by this number they know that they are old.
func (w *Worker) enlist(now lease.Millis) {
	for range table.Tries {
		var r [2]uint64 // generation, hash of the configuration
		version := w.record64(keyPlugin, r[:])
		if version != table.Absent && r[1] == w.cfg.hash {
			w.generation = r[0]
			return
		}
		if w.setRecord64(keyPlugin, version, r[0]+1, w.cfg.hash) {
			w.generation = r[0] + 1
			return
		}
	}
}

// fenced reports whether a newer plugin configuration is at work.
func (w *Worker) fenced() bool {
	var r [2]uint64
	return w.record64(keyPlugin, r[:]) != table.Absent && r[0] != w.generation
}

// lead claims the background work, or keeps it.
func (w *Worker) lead(now lease.Millis) bool {
	var r [4]uint64 // number of the leader, until when, its generation, whether it serves requests
	version := w.record64(keyLeader, r[:])
	until := lease.Millis(r[1])
	if w.fenced() {
		if version == table.Absent || now < until+orphaned {
			return false
		}
		w.enlist(now)
	}
	busy := uint64(0)
	if w.decidedLately {
		busy = 1
	}
	switch mine := r[0] == w.number; {
	case mine && r[3] == busy && now < until-leadFor/2:
		return true
	case mine, now >= until, r[2] < w.generation, r[3] > busy:
		return w.setRecord64(keyLeader, version, w.number, uint64(now+leadFor), w.generation, busy)
	}
	return false
}

// scan looks through some pages for what idle keys still owe.
func (w *Worker) scan(now lease.Millis) {
	n := (w.enforced.Pages() + scanTicks - 1) / scanTicks
	for range n {
		w.scanPage(now, w.enforced)
		w.scanPage(now, w.shadow)
		w.scanned = (w.scanned + 1) % w.enforced.Pages()
	}
	w.sweepSlots(now)
}

// scanPage collects what the keys of a page have to report, and drops idle ones.
func (w *Worker) scanPage(now lease.Millis, t *table.Table) {
	var found []report
	var dropped []table.Entry
	outcome := t.Visit(now, w.scanned, func(e *table.Entry) bool {
		if w.forgotten(e, now) {
			dropped = append(dropped, *e)
			return false
		}
		if r, ok := w.reportOf(now, e); ok {
			found = append(found, r)
		}
		return true
	})
	if outcome != table.Stored {
		return // somebody else changed the page; the next round will find it again
	}
	for i := range dropped {
		w.drop(&dropped[i])
	}
	for _, r := range found {
		if l := r.policy.line; len(l.reports) < mostBacks {
			l.reports = append(l.reports, r)
		} else {
			w.Counts.Lost += uint64(r.want.Unused)
		}
	}
}

// reportOf takes what an entry has to give back or to report out of it.
func (w *Worker) reportOf(now lease.Millis, e *table.Entry) (report, bool) {
	if w.rules == nil || e.Key == nil {
		return report{}, false
	}
	p := w.rules.byID[e.Rule]
	if p == nil || p.line == nil || p.line.open || e.Asking && now < e.Asked+p.terms.Timeout {
		return report{}, false
	}
	want, ok := e.Report(&p.terms, now)
	if !ok {
		return report{}, false
	}
	text := append([]byte(nil), e.Key...)
	return report{p, p.key(w.seed, text), want}, true
}
