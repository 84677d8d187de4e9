package table

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// poolBytes is the most memory that the slots of concurrency limits take, with so many workers.
func poolBytes(workers int) int {
	perKey := keyBytes + min(workers, poolMembers)*memberBytes
	return PoolPages * (poolHeader + maxPoolKeys*perKey + hostBytes)
}

// A table full of the longest entries, in which nothing is left out, takes what is promised, and no less: a table
// that took much less would promise too much.
func TestBytes(t *testing.T) {
	m, soon := newMemory(), start+day
	table := New(m, 'E', 4, neverIdle)
	for n := range uint64(4000) {
		e := table.Open(Key{Hash: n * 0x9e3779b97f4a7c15, Rule: 1, Text: []byte(strings.Repeat("k", rule.MaxKey))})
		e.Counter = limit.State{At: 1, Level: 2, Aux: 3}
		for i := range e.Leases {
			e.Leases[i] = holder.Lease{Units: 1<<32 - 1, Expiry: soon, From: soon, Lease: 7}
		}
		e.Asked, e.Reset, e.RetryAt = start, soon, soon
		e.Phase, e.Ends = holder.PhaseDenied, soon
		e.Denied, e.Least, e.Overdrawn = 5, 6, 9
		e.Sealed = holder.Debt{Units: 4, Number: start}
		e.Back = holder.Backoff{Until: soon, Failures: 3}
		table.Commit(start)
	}
	for n := range uint64(16 * maxShared) {
		countShared(table, Key{Hash: n / maxShared << 60, Rule: 2 + uint32(n)%maxShared})
	}
	taken := 0
	for _, v := range m.values {
		taken += len(v) + hostBytes
	}
	if most := Bytes(table.Pages()); taken > most || taken < most*99/100 {
		t.Errorf("16 full pages take %d bytes, promised are %d", taken, most)
	}
}

// Of a full pool one page is filled, since all are alike.
func TestPoolBytes(t *testing.T) {
	m := newMemory()
	p := NewPool(m, 'C')
	const workers = 8
	for n := range uint64(maxPoolKeys) {
		k := Key{Hash: n}
		for id := range uint64(workers) {
			p.Open(start, k, id+1)
			p.Commit(start, k, id+1, Member{Uses: 2, May: 2, Until: start + day, Seen: start + day})
		}
	}
	taken := len(m.values["C\x00\x00"]) + hostBytes
	if most := poolBytes(workers) / PoolPages; len(m.values) != 1 || taken > most || taken < most*99/100 {
		t.Errorf("a full page of slots takes %d bytes, promised are %d", taken, most)
	}
}

// The bounds in the documents are those of the code.
func TestDocumentedBytes(t *testing.T) {
	text := fatal.Get(os.ReadFile("../../../docs/envoy.md"))(t)
	for _, want := range []string{
		fmt.Sprintf("| 32768 (default) | 1,048,576 | %.0f MB |", float64(Bytes(32768))/1e6),
		fmt.Sprintf("| 4096 | 131,072 | %.1f MB |", float64(Bytes(4096))/1e6),
		fmt.Sprintf("| 16 | 512 | %.1f MB |", float64(Bytes(16))/1e6),
		fmt.Sprintf("%.1f MB with 4 workers", float64(poolBytes(4))/1e6),
		fmt.Sprintf("%.1f MB with 64.", float64(poolBytes(64))/1e6),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/envoy.md does not state %q", want)
		}
	}
	if pop, err := os.ReadFile("../../../envoy/pop.yaml"); err != nil || !strings.Contains(string(pop), fmt.Sprintf("vm_id: weir-%d\n", layout)) {
		t.Errorf("envoy/pop.yaml does not have the vm_id of layout %d (%v)", layout, err)
	}
}
