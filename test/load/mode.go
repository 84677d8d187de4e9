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
)

// mode is one way of answering requests, measured in rounds.
type mode struct {
	name   string
	client *drive.Client
	keys   drive.Keys
	status int            // what every answer should be; 0 means 200 or 429
	procs  []*rig.Process // whose CPU counts

	cpu      measure.Sample // µs per request, one per round
	p50, p99 measure.Sample // µs
	seen     tally
}

// tally is what all rounds of a mode saw together.
type tally struct {
	due, done, failed, missed, unexpected uint64
	driver                                time.Duration // CPU of the driver
	elapsed                               time.Duration
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
	m.cpu = append(m.cpu, micros(after-before)/float64(r.Done))
	m.p50 = append(m.p50, micros(r.Latency.Quantile(0.50)))
	m.p99 = append(m.p99, micros(r.Latency.Quantile(0.99)))
	m.count(r)
	return ctx.Err()
}

func (m *mode) count(r *drive.Result) {
	m.seen.due += r.Due
	m.seen.done += r.Done
	m.seen.failed += r.Failed
	m.seen.missed += r.Missed
	m.seen.driver += r.CPU
	m.seen.elapsed += r.Elapsed
	expected := r.Status[m.status]
	if m.status == 0 {
		expected = r.Status[http.StatusOK] + r.Status[http.StatusTooManyRequests]
	}
	m.seen.unexpected += r.Done - expected
}

// used is the CPU time of the mode's processes so far.
func (m *mode) used() (time.Duration, error) {
	var sum time.Duration
	for _, p := range m.procs {
		cpu, err := measure.CPU(p.PID)
		if err != nil {
			return 0, fmt.Errorf("%s: %s: %w", m.name, p.Name, err)
		}
		sum += cpu
	}
	return sum, nil
}

// note says what throws doubt on the mode's figures, and how fast it went.
func (m *mode) note(rate float64) string {
	achieved := float64(m.seen.done) / m.seen.elapsed.Seconds()
	notes := []string{fmt.Sprintf("%.0f req/s, driver %.1f µs/req",
		achieved, micros(m.seen.driver)/float64(m.seen.done))}
	if rate > 0 && float64(m.seen.done) < rateTolerance*float64(m.seen.due) {
		notes = append(notes, fmt.Sprintf("OFFERED %.0f req/s NOT REACHED", rate))
	}
	if m.seen.failed > 0 {
		notes = append(notes, fmt.Sprintf("%d failed", m.seen.failed))
	}
	if m.seen.unexpected > 0 {
		notes = append(notes, fmt.Sprintf("%.2f %% not %d", 100*float64(m.seen.unexpected)/float64(m.seen.done), m.status))
	}
	return strings.Join(notes, ", ")
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
