//go:build linux

package edge

import (
	"context"
	"fmt"
	"net/http"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// mode is one way of answering requests.
type mode struct {
	round.Mode
	envoy  *envoy.Envoy // that answers
	target table.Target // of the CPU per request
	// Of Weir only: where it runs and the rules that apply to every request.
	at    *place
	rules []string

	traffic traffic // of Weir only, over all rounds
}

// row is the mode's CPU per request, beside that of bare.
func (m *mode) row(bare *mode, rate float64) table.Row {
	return table.Row{Name: m.Name, Unit: "µs/req", Value: m.CPU, Peer: bare.CPU, Target: m.target, Note: m.note(rate)}
}

// note is that of the rounds, and what the filter counted.
func (m *mode) note(rate float64) string {
	note := m.Note(rate)
	switch {
	case note == "" || len(m.rules) == 0:
		return note
	case m.traffic.decisions == 0:
		return note + ", THE FILTER COUNTED NO DECISION"
	}
	return note + fmt.Sprintf(", waited %.2f %%, %.3f wants/decision", m.traffic.waited(), m.traffic.wanted())
}

// modes are measured in turns. add gathers errors, so that a list of modes reads
// like a table; run reports the first.
type modes struct {
	b     *bench
	conns int
	all   []*mode
	err   error
}

// add makes a mode that asks e for path with keys and expects status.
func (ms *modes) add(name string, e *envoy.Envoy, path string, keys drive.Keys, status int) *mode {
	m := &mode{Mode: round.Mode{Name: name, Status: status}, envoy: e}
	ms.all = append(ms.all, m)
	if ms.err != nil {
		return m
	}
	if m.Client, ms.err = drive.Dial(e.Addr, path, keys, ms.conns); ms.err != nil {
		ms.err = fmt.Errorf("%s: %w", name, ms.err)
		return m
	}
	m.Meters = []round.Meter{rig.Meter(e.Process)}
	ms.b.Cleanup(m.Client.Close)
	return m
}

// weir makes a mode of Weir whose requests the named rules apply to.
func (ms *modes) weir(name string, at *place, path string, keys drive.Keys, status int, rules ...string) *mode {
	m := ms.add(name, at.pop, path, keys, status)
	m.at, m.rules = at, rules
	return m
}

// run warms every mode up and then measures them in turns.
func (ms *modes) run(ctx context.Context, warm, load drive.Pace, rounds int) error {
	if ms.err != nil {
		return ms.err
	}
	before := make([]traffic, len(ms.all))
	for i, m := range ms.all {
		first := warm
		if m.at != nil { // every key has to have a lease, and more than its first
			first.Duration, first.Requests = 5*warm.Duration, 10*int64(ms.b.plan.keys)
		}
		if err := m.WarmUp(ctx, first); err != nil {
			return err
		}
		var err error
		if before[i], err = m.asked(ctx); err != nil {
			return err
		}
	}
	inTurn := make([]*round.Mode, len(ms.all))
	for i, m := range ms.all {
		inTurn[i] = &m.Mode
	}
	if err := round.Turns(ctx, inTurn, load, rounds, 1); err != nil {
		return err
	}
	for i, m := range ms.all {
		after, err := m.asked(ctx)
		if err != nil {
			return err
		}
		m.traffic = after.since(before[i])
	}
	return nil
}

const (
	answered = http.StatusOK
	refused  = http.StatusTooManyRequests
)
