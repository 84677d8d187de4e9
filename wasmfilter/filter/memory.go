package filter

import "runtime"

// collectAfter is how many bytes are allocated before the next collection. With 8 MiB a worker
// took 12 MB more memory under load, and a request cost as much.
const collectAfter = 1 << 20

// collect collects garbage at a tick, when enough has gathered. Left to itself
// the collector starts in the middle of requests and hardly ever ends there: it
// works when nothing else runs, and in a VM nothing runs between callbacks, so
// that write barriers slow every request down. envoy/pop.yaml therefore sets
// GOGC=off, with GOMEMLIMIT for the case that ticks fail.
func (m *vm) collect() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if mem.TotalAlloc-m.collected < collectAfter {
		return
	}
	runtime.GC()
	m.collected = mem.TotalAlloc
}
