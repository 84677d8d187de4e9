package filter

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// started is how long after the first requests of a plugin configuration Envoy may still start VMs
// for it. It starts one per worker, at the same time.
const started lease.Millis = 5000

// serving is a record in shared data: since when VMs with one plugin configuration and one version of
// the filter serve requests. It outlives these VMs.
type serving struct {
	key   []byte
	since lease.Millis // 0: there is no record
	busy  bool         // this VM has had a request
}

func (s *serving) read(h host, config uint64) {
	s.key = binary.LittleEndian.AppendUint64([]byte("serving "+version.Version+" "), config)
	if raw, _, ok := h.Get(s.key); ok {
		s.since = lease.Millis(binary.LittleEndian.Uint64(raw))
	}
}

// note writes the record, unless another worker was faster.
func (s *serving) note(h host, now lease.Millis) {
	if s.busy && s.since == 0 {
		h.Set(s.key, binary.LittleEndian.AppendUint64(nil, uint64(now)), table.Absent)
		s.since = now
	}
}

// checkReplaced reports a VM that Envoy has started in place of one that crashed. p is the VM's first
// plugin.
func (p *plugin) checkReplaced(now lease.Millis) {
	if p.serving.since > 0 && now > p.serving.since+started {
		p.stats.add(p.host, "weir.vm_replaced", 1)
		p.worker.Problem(now, "a VM of the filter crashed, and Envoy replaced it; report this, with Envoy's log")
	}
}
