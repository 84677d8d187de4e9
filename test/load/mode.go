//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/load/drive"
	"github.com/weirlimit/weir/test/load/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// mode is one way of answering requests, measured in rounds.
type mode struct {
	name   string
	client *drive.Client
	keys   drive.Keys
	status int            // what every answer should be; 0 means 200 or 429
	procs  []*rig.Process // whose CPU counts
	target table.Target   // of the CPU per request
	// Of Weir only: where it runs and the rules that apply to every request.
	at    *place
	rules []string

	cpu      measure.Sample   // µs per request of all procs, one value per round
	parts    []measure.Sample // the same per process
	p50, p99 measure.Sample   // µs
	seen     tally
	traffic  traffic // of Weir only, over all rounds
}

// tally is what all rounds of a mode saw together.
type tally struct {
	due, done, failed, missed uint64
	status                    [600]uint64
	driver                    time.Duration // CPU of the driver
	elapsed                   time.Duration
}

// warmUp sends a load that is not measured.
func (m *mode) warmUp(ctx context.Context, load drive.Load) error {
	load.Keys = m.keys
	if _, err := m.client.Run(ctx, load); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return ctx.Err()
}

// round sends a load and keeps what it cost.
func (m *mode) round(ctx context.Context, load drive.Load) error {
	load.Keys = m.keys
	before, err := m.used()
	if err != nil {
		return err
	}
	r, err := m.client.Run(ctx, load)
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	after, err := m.used()
	if err != nil {
		return err
	}
	if r.Done == 0 {
		return fmt.Errorf("%s: no request was answered", m.name)
	}
	m.cost(before, after, r.Done)
	m.p50 = append(m.p50, micros(r.Latency.Quantile(0.50)))
	m.p99 = append(m.p99, micros(r.Latency.Quantile(0.99)))
	m.seen.add(r)
	return ctx.Err()
}

// used is the CPU time of each of the mode's processes so far.
func (m *mode) used() ([]time.Duration, error) {
	used := make([]time.Duration, len(m.procs))
	for i, p := range m.procs {
		cpu, err := measure.CPU(p.PID)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", m.name, p.Name, err)
		}
		used[i] = cpu
	}
	return used, nil
}

func (m *mode) cost(before, after []time.Duration, requests uint64) {
	if m.parts == nil {
		m.parts = make([]measure.Sample, len(m.procs))
	}
	var total float64
	for i := range m.procs {
		each := micros(after[i]-before[i]) / float64(requests)
		m.parts[i] = append(m.parts[i], each)
		total += each
	}
	m.cpu = append(m.cpu, total)
}

func (t *tally) add(r *drive.Result) {
	t.due += r.Due
	t.done += r.Done
	t.failed += r.Failed
	t.missed += r.Missed
	t.driver += r.CPU
	t.elapsed += r.Elapsed
	for status, n := range r.Status {
		t.status[status] += n
	}
}

// row is the mode's CPU per request, beside that of bare.
func (m *mode) row(bare *mode, rate float64) table.Row {
	return table.Row{Name: m.name, Unit: "µs/req", Value: m.cpu, Bare: bare.cpu, Target: m.target, Note: m.note(rate)}
}

// note says how fast the mode went and what throws doubt on its figures. rate is
// that of an open loop, else 0.
func (m *mode) note(rate float64) string {
	t := &m.seen
	if t.done == 0 {
		return ""
	}
	notes := []string{fmt.Sprintf("%.0f req/s, driver %.1f µs/req",
		float64(t.done)/t.elapsed.Seconds(), micros(t.driver)/float64(t.done))}
	if rate > 0 && float64(t.done) < rateTolerance*float64(t.due) {
		notes = append(notes, fmt.Sprintf("OFFERED %.0f req/s NOT REACHED", rate))
	}
	if t.failed > 0 {
		notes = append(notes, fmt.Sprintf("%d failed", t.failed))
	}
	for status, n := range t.status {
		if n > 0 && status != m.status {
			notes = append(notes, fmt.Sprintf("%.2f %% status %d", 100*float64(n)/float64(t.done), status))
		}
	}
	switch {
	case len(m.rules) > 0 && m.traffic.decisions == 0:
		notes = append(notes, "THE FILTER COUNTED NO DECISION")
	case len(m.rules) > 0:
		notes = append(notes, fmt.Sprintf("waited %.2f %%, %.3f wants/decision", m.traffic.waited(), m.traffic.wanted()))
	}
	return strings.Join(notes, ", ")
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// modes are measured in turns. add gathers errors, so that a list of modes reads
// like a table; run reports the first.
type modes struct {
	b     *bench
	conns int
	all   []*mode
	err   error
}

// add makes a mode that asks e for path with keys and expects status.
func (ms *modes) add(name string, e *rig.Envoy, path string, keys drive.Keys, status int) *mode {
	m := &mode{name: name, keys: keys, status: status}
	ms.all = append(ms.all, m)
	if ms.err != nil {
		return m
	}
	if m.client, ms.err = drive.Dial(e.Addr, path, ms.conns); ms.err != nil {
		ms.err = fmt.Errorf("%s: %w", name, ms.err)
		return m
	}
	m.procs = []*rig.Process{e.Process}
	ms.b.clients = append(ms.b.clients, m.client)
	return m
}

// weir makes a mode of Weir whose requests the named rules apply to.
func (ms *modes) weir(name string, at *place, path string, keys drive.Keys, status int, rules ...string) *mode {
	m := ms.add(name, at.pop, path, keys, status)
	m.at, m.rules = at, rules
	return m
}

// run warms every mode up and then measures them in turns.
func (ms *modes) run(ctx context.Context, warm, load drive.Load, rounds int) error {
	if ms.err != nil {
		return ms.err
	}
	before := make([]traffic, len(ms.all))
	for i, m := range ms.all {
		first := warm
		if m.at != nil { // every key has to have a lease, and more than its first
			first.Duration, first.Requests = 5*warm.Duration, 10*uint64(ms.b.plan.keys)
		}
		if err := m.warmUp(ctx, first); err != nil {
			return err
		}
		var err error
		if before[i], err = m.asked(ctx); err != nil {
			return err
		}
	}
	for range rounds {
		for _, m := range ms.all {
			if err := m.round(ctx, load); err != nil {
				return err
			}
		}
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
