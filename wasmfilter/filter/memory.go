package filter

import "runtime"

// collectAfter is how many bytes are allocated before the next collection, at least: a flood of new keys
// must not have a large heap looked through at every tick. A larger number costs memory, not time: with
// 8 MiB a worker takes 12 MB more under load.
const collectAfter = 1 << 20

// collect collects garbage at a tick, when enough has gathered. Left to itself
// the collector starts in the middle of requests and hardly ever ends there: it
// works when nothing else runs, and in a VM nothing runs between callbacks, so
// that write barriers slow every request down. envoy/pop.yaml therefore sets
// GOGC=off, with GOMEMLIMIT for the case that ticks fail.
func (m *vm) collect() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if mem.TotalAlloc-m.collected < max(collectAfter, m.live) {
		return
	}
	runtime.GC()
	runtime.ReadMemStats(&mem)
	m.collected, m.live = mem.TotalAlloc, mem.HeapAlloc
}
