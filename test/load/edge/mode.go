//go:build linux

package edge

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

const (
	answered = http.StatusOK
	rejected = http.StatusTooManyRequests
)

// mode is one way of answering requests.
type mode struct {
	rig.Mode
	// Of Weir only: where it runs, the rules that apply to every request, and its traffic over
	// all rounds.
	at      *place
	rules   []string
	traffic traffic
}

// row is the mode's CPU per request, beside that of another one.
func (m *mode) row(peer measure.Sample) table.Row {
	note := m.Note()
	switch {
	case m.at == nil || note == "":
	case m.traffic.decisions == 0:
		note += ", THE FILTER COUNTED NO DECISION"
	default:
		note += fmt.Sprintf(", waited %.2f %%, %.3f wants/decision", m.traffic.waited(), m.traffic.wants/m.traffic.decisions)
	}
	return table.Row{Name: m.Name, Unit: "µs/req", Value: m.CPU, Peer: peer, Note: note}
}

type modes struct {
	*bench
	keys uint32 // of the traffic over many keys
	all  []*mode
}

// add makes a mode that asks e for path with keys and expects status.
func (ms *modes) add(name string, e *envoy.Envoy, path string, keys drive.Keys, status int) *mode {
	client, err := drive.Dial(e.Addr, path, keys, openConns)
	ms.Must(err)
	ms.Cleanup(client.Close)
	m := &mode{Mode: rig.Mode{Name: name, Client: client, Status: status, Meters: []rig.Meter{rig.MeterOf(e.Process)}}}
	ms.all = append(ms.all, m)
	return m
}

// weir makes a mode of Weir whose requests the named rules apply to.
func (ms *modes) weir(name string, at *place, path string, keys drive.Keys, status int, rules ...string) *mode {
	m := ms.add(name, at.pop, path, keys, status)
	if len(rules) > 0 {
		m.at, m.rules = at, rules
	}
	return m
}

// run warms every mode up and then measures them in turns.
func (ms *modes) run(load drive.Pace, rounds int) {
	for _, m := range ms.all {
		warm := drive.Pace{Duration: ms.warm, Rate: load.Rate}
		if m.at != nil { // every key has to have a lease, and more than its first
			warm.Duration, warm.Requests = 5*ms.warm, 10*int64(ms.keys)
		}
		ms.WarmUp(&m.Mode, warm)
	}
	inTurn, before := make([]*rig.Mode, len(ms.all)), make([]traffic, len(ms.all))
	for i, m := range ms.all {
		inTurn[i], before[i] = &m.Mode, ms.asked(m)
	}
	ms.Turns(inTurn, load, rounds, 1)
	for i, m := range ms.all {
		m.traffic = ms.asked(m).since(before[i])
	}
}

// traffic is what a PoP decided and what it asked of its region for that, in
// counters.
type traffic struct{ decisions, waits, wants float64 }

// asked reads the traffic of a mode's rules so far; nothing for what is not Weir.
func (b *bench) asked(m *mode) (t traffic) {
	if m.at == nil {
		return t
	}
	b.Wait(250 * time.Millisecond) // the filter adds up at every tick
	edge, region := m.at.pop.Metrics(), m.at.region.Metrics()
	for _, rule := range m.rules {
		label := `rule="` + rule + `"`
		t.decisions += edge.Sum("weir_decisions", label)
		t.waits += edge.Sum("weir_waits", label)
		t.wants += region.Sum("weir_wants_total", label)
	}
	return t
}

func (t traffic) since(earlier traffic) traffic {
	return traffic{t.decisions - earlier.decisions, t.waits - earlier.waits, t.wants - earlier.wants}
}

// waited is the share of the decisions that waited for the region, in per cent.
func (t traffic) waited() float64 { return 100 * t.waits / t.decisions }
