//go:build linux

package edge

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

const (
	touchRequests = 2_000 // whose memory is read together
	touchRounds   = 5
)

// touched reads how much memory of Envoy requests use, where Envoy answers itself. The kernel marks
// each page that is used, so the unit is a page of 4 KiB: huge pages are off for these Envoys.
func (b *bench) touched() []table.Section {
	b.Must(unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0))
	bare := b.pop("touched-bare", func(e *envoy.Bootstrap) { answerItself(e); e.SetFilter(nil) })
	native := b.pop("touched-native", func(e *envoy.Bootstrap) { answerItself(e); e.SetLocalRateLimit(10_000_000) })
	one := b.place("touched-one", oneRule, "/one/thing", answerItself)
	three := b.place("touched-three", threeRules, "/three/thing", answerItself)
	b.Must(unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0))
	defer func() { bare.Stop(); native.Stop(); one.stop(); three.stop() }()

	ms := modes{bench: b, keys: b.keys, conns: openConns}
	few, many := drive.Uniform(fewKeys, 1), drive.Uniform(b.keys, 1)
	ms.add("bare Envoy", bare, "/one/thing", few, answered)
	ms.add("native local_ratelimit, allowing", native, "/one/thing", few, answered)
	ms.weir("Weir, no rule matches", one, "/none/thing", few, answered)
	ms.weir("Weir, one rule, 100 keys", one, "/one/thing", few, answered, "one")
	ms.weir(fmt.Sprintf("Weir, one rule, %d keys", b.keys), one, "/one-hot/thing", many, answered, "one-hot")
	ms.weir("Weir, three rules, 100 keys", three, "/three/thing", few, answered, "user", "address", "total")
	ms.weir("Weir, refused", one, "/refused-hot/thing", few, refused, "refused-hot")
	ms.warmUp(0)
	s := table.Section{Title: fmt.Sprintf("What %d requests of %d connections touch, in pages", touchRequests, openConns)}
	for i, e := range []*envoy.Envoy{bare, native, one.pop, one.pop, one.pop, three.pop, one.pop} {
		row := b.touchedRow(ms.all[i], e)
		if i > 0 {
			row.Peer = s.Rows[0].Value
		}
		s.Rows = append(s.Rows, row)
	}
	return []table.Section{s}
}

// touchedRow is the memory that requests of a mode use, and what for.
func (b *bench) touchedRow(m *mode, e *envoy.Envoy) table.Row {
	row := table.Row{Name: m.Name, Unit: "KiB"}
	var by [kinds]measure.Sample
	for range touchRounds {
		total := 0.0
		for kind, n := range b.touchedBy(e, func() {
			b.WarmUp(&m.Mode, drive.Pace{Duration: time.Minute, Requests: touchRequests})
		}) {
			by[kind] = append(by[kind], n)
			total += n
		}
		row.Value = append(row.Value, total)
	}
	var parts []string
	for kind, name := range kindNames {
		parts = append(parts, fmt.Sprintf("%s %.0f", name, by[kind].Median()))
	}
	row.Note = strings.Join(parts, ", ")
	return row
}

// kind is what memory of an Envoy is for.
type kind int

const (
	code kind = iota
	constants
	libraries
	compiled
	linear
	heap
	kinds
)

var kindNames = [kinds]string{code: "code", constants: "constants and data", libraries: "libraries", compiled: "compiled module",
	linear: "memory of VMs", heap: "heap and stacks"}

// touchedBy returns the KiB of each kind that an Envoy uses while f runs.
func (b *bench) touchedBy(e *envoy.Envoy, f func()) (used [kinds]float64) {
	dir := fmt.Sprintf("/proc/%d/", e.PID())
	b.Must(os.WriteFile(dir+"clear_refs", []byte("1"), 0))
	f()
	text, err := os.ReadFile(dir + "smaps")
	b.Must(err)
	for _, m := range readMappings(string(text)) {
		used[m.kind] += m.touched
	}
	return used
}

// mapping is a part of the memory of a process.
type mapping struct {
	from, to uint64
	kind     kind
	touched  float64 // KiB, since they were last counted anew
}

// guarded is more than anything but the memory of a VM has reserved behind it.
const guarded = 4 << 30

// readMappings reads a /proc/PID/smaps.
func readMappings(smaps string) (all []mapping) {
	for line := range strings.Lines(smaps) {
		var m mapping
		var access, skip, path string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s %s", &m.from, &m.to, &access, &skip, &skip, &skip, &path); n >= 6 {
			last := len(all) - 1
			if last >= 0 && all[last].kind == heap && all[last].to == m.from && access == "---p" && m.to-m.from > guarded {
				all[last].kind = linear
			}
			executable := access[2] == 'x'
			switch {
			case strings.HasSuffix(path, "/envoy") && executable:
				m.kind = code
			case strings.HasSuffix(path, "/envoy"):
				m.kind = constants
			case strings.HasPrefix(path, "/") || strings.HasPrefix(path, "[v"):
				m.kind = libraries
			case executable:
				m.kind = compiled
			default:
				m.kind = heap
			}
			all = append(all, m)
		} else if n, _ := fmt.Sscanf(line, "Referenced: %f kB", &m.touched); n == 1 && len(all) > 0 {
			all[len(all)-1].touched = m.touched
		}
	}
	return all
}
