// Package round measures ways of answering requests, in rounds that take turns: a
// round of each way, then the next round of each, so that whatever else the
// machine does falls on all of them alike.
package round

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
)

// Mode is one way of answering requests.
type Mode struct {
	Name   string
	Client *drive.Client
	Status int           // what every answer should be; 0 means 200 or 429
	Meters []Meter       // of those who answer
	Settle time.Duration // sent before the rounds of each turn: what rests forgets
	Rest   time.Duration // after each turn: what was left over does not fall on the next mode
	// Count counts something that answering causes, so far; nil: nothing is counted.
	Count func() (int64, error)

	// What was measured, one value per round.
	CPU      measure.Sample   // µs per request, by all meters
	Parts    []measure.Sample // the same by each
	Counted  measure.Sample   // by Count, per request
	P50, P99 measure.Sample   // µs
	Seen     Tally            // of all rounds together
}

// Meter is the processor time of one who answers.
type Meter struct {
	Name string
	// Read is what it has used so far.
	Read func() (time.Duration, error)
	// Idle is the share of a core that it uses with nothing to do, taken off what is
	// measured; 0: nothing is.
	Idle float64
}

// Tally is what several rounds saw together.
type Tally struct {
	Due, Done, Failed, Missed int64
	Status                    drive.Statuses
	Driver                    time.Duration // processor time of the driver
	Elapsed                   time.Duration
}

// rateTolerance: an open loop that achieves less gets a note.
const rateTolerance = 0.99

// WarmUp sends at a pace what is not measured.
func (m *Mode) WarmUp(ctx context.Context, pace drive.Pace) error {
	if _, err := m.Client.Run(ctx, pace); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return ctx.Err()
}

// Round sends at a pace and keeps what it cost.
func (m *Mode) Round(ctx context.Context, pace drive.Pace) error {
	before, countBefore, err := m.used()
	if err != nil {
		return err
	}
	r, err := m.Client.Run(ctx, pace)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	after, countAfter, err := m.used()
	if err != nil {
		return err
	}
	if r.Done == 0 {
		return fmt.Errorf("%s: no request was answered", m.Name)
	}
	m.cost(before, after, r)
	if m.Count != nil {
		m.Counted = append(m.Counted, float64(countAfter-countBefore)/float64(r.Done))
	}
	m.P50 = append(m.P50, Micros(r.Latency.Quantile(0.50)))
	m.P99 = append(m.P99, Micros(r.Latency.Quantile(0.99)))
	m.Seen.add(r)
	return ctx.Err()
}

// Turns gives each mode a turn, and that so many times: it sends at a pace for the
// mode's Settle, unmeasured, and then in so many rounds; then it rests.
func Turns(ctx context.Context, modes []*Mode, pace drive.Pace, turns, rounds int) error {
	for range turns {
		for _, m := range modes {
			if err := m.turn(ctx, pace, rounds); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Mode) turn(ctx context.Context, pace drive.Pace, rounds int) error {
	if m.Settle > 0 {
		settle := pace
		settle.Duration = m.Settle
		if err := m.WarmUp(ctx, settle); err != nil {
			return err
		}
	}
	for range rounds {
		if err := m.Round(ctx, pace); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(m.Rest):
	}
	return ctx.Err()
}

// used is what each meter shows so far, and the count.
func (m *Mode) used() (used []time.Duration, count int64, err error) {
	used = make([]time.Duration, len(m.Meters))
	for i, meter := range m.Meters {
		if used[i], err = meter.Read(); err != nil {
			return nil, 0, fmt.Errorf("%s: %s: %w", m.Name, meter.Name, err)
		}
	}
	if m.Count != nil {
		if count, err = m.Count(); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return used, count, nil
}

func (m *Mode) cost(before, after []time.Duration, r *drive.Result) {
	if m.Parts == nil {
		m.Parts = make([]measure.Sample, len(m.Meters))
	}
	var total float64
	for i, meter := range m.Meters {
		idle := meter.Idle * Micros(r.Elapsed)
		each := max(Micros(after[i]-before[i])-idle, 0) / float64(r.Done)
		m.Parts[i] = append(m.Parts[i], each)
		total += each
	}
	m.CPU = append(m.CPU, total)
}

func (t *Tally) add(r *drive.Result) {
	t.Due += r.Due
	t.Done += r.Done
	t.Failed += r.Failed
	t.Missed += r.Missed
	t.Driver += r.CPU
	t.Elapsed += r.Elapsed
	for status, n := range r.Status {
		t.Status[status] += n
	}
}

// Note states how fast the mode went and what throws doubt on its figures. rate is
// that of an open loop, else 0. It is empty before the first round.
func (m *Mode) Note(rate float64) string {
	t := &m.Seen
	if t.Done == 0 {
		return ""
	}
	notes := []string{fmt.Sprintf("%.0f req/s, driver %.1f µs/req",
		float64(t.Done)/t.Elapsed.Seconds(), Micros(t.Driver)/float64(t.Done))}
	if rate > 0 && float64(t.Done) < rateTolerance*float64(t.Due) {
		notes = append(notes, fmt.Sprintf("OFFERED %.0f req/s NOT REACHED", rate))
	}
	if t.Failed > 0 {
		notes = append(notes, fmt.Sprintf("%d failed", t.Failed))
	}
	for status, n := range t.Status {
		if n > 0 && status != m.Status {
			notes = append(notes, fmt.Sprintf("%.2f %% status %d", 100*float64(n)/float64(t.Done), status))
		}
	}
	return strings.Join(notes, ", ")
}

// Micros is d in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
