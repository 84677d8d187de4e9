//go:build linux

package rig

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Mode is one way of answering requests. Modes are measured in rounds that take turns: rounds of
// one, then of the next, so that whatever else the machine does falls on all of them alike.
type Mode struct {
	Name   string
	Client *drive.Client
	Status int           // what every answer should be
	Meters []Meter       // of those who answer
	Settle time.Duration // sent before the rounds of each turn: what rests forgets
	Rest   time.Duration // after each turn: what was left over does not fall on the next mode
	// Count counts something that answering causes, so far; nil: nothing is counted.
	Count func() int64

	// What was measured, one value per round.
	CPU     measure.Sample   // µs per request, by all meters
	Parts   []measure.Sample // the same by each
	Counted measure.Sample   // by Count, per request
	P50     measure.Sample   // µs
	P99     measure.Sample   // µs

	seen seen // in all rounds together
}

// Meter is the processor time of one who answers.
type Meter struct {
	Used func() time.Duration // so far
	// Idle is the share of a core that it uses with nothing to do, taken off what is
	// measured; 0: nothing is.
	Idle float64
}

// MeterOf reads the processor time of a program.
func MeterOf(p *proc.Process) Meter { return Meter{Used: p.CPU} }

// seen is what several rounds saw together.
type seen struct {
	due, done, failed int64
	status            drive.Statuses
	elapsed           time.Duration
}

// rateTolerance: an open loop that achieves less gets a note.
const rateTolerance = 0.99

// WarmUp sends at a pace, and returns what was seen. No mode keeps it.
func (r *Rig) WarmUp(m *Mode, pace drive.Pace) *drive.Result {
	result, err := m.Client.Run(r.Ctx, pace)
	if err == nil {
		err = r.Ctx.Err()
	}
	if err != nil {
		r.Fatalf("%s: %w", m.Name, err)
	}
	return result
}

// Round sends at a pace and keeps what it cost.
func (r *Rig) Round(m *Mode, pace drive.Pace) {
	before, count := m.used()
	result := r.WarmUp(m, pace)
	after, countAfter := m.used()
	if result.Done == 0 {
		r.Fatalf("%s: no request was answered", m.Name)
	}
	done, total := float64(result.Done), 0.0
	if m.Parts == nil {
		m.Parts = make([]measure.Sample, len(m.Meters))
	}
	for i, meter := range m.Meters {
		each := max(Micros(after[i]-before[i])-meter.Idle*Micros(result.Elapsed), 0) / done
		m.Parts[i] = append(m.Parts[i], each)
		total += each
	}
	m.CPU = append(m.CPU, total)
	if m.Count != nil {
		m.Counted = append(m.Counted, float64(countAfter-count)/done)
	}
	m.P50 = append(m.P50, Micros(result.Latency.Quantile(0.5)))
	m.P99 = append(m.P99, Micros(result.Latency.Quantile(0.99)))
	m.seen.add(result)
}

// Turns gives each mode a turn, and that so many times: it sends at a pace for the
// mode's Settle, unmeasured, and then in so many rounds; then it rests.
func (r *Rig) Turns(modes []*Mode, pace drive.Pace, turns, rounds int) {
	for range turns {
		for _, m := range modes {
			if m.Settle > 0 {
				r.WarmUp(m, drive.Pace{Duration: m.Settle, Rate: pace.Rate})
			}
			for range rounds {
				r.Round(m, pace)
			}
			r.Wait(m.Rest)
		}
	}
}

// used is what each meter shows so far, and the count.
func (m *Mode) used() (used []time.Duration, count int64) {
	for _, meter := range m.Meters {
		used = append(used, meter.Used())
	}
	if m.Count != nil {
		count = m.Count()
	}
	return used, count
}

func (s *seen) add(r *drive.Result) {
	s.due += r.Due
	s.done += r.Done
	s.failed += r.Failed
	s.elapsed += r.Elapsed
	for status, n := range r.Status {
		s.status[status] += n
	}
}

// Note states how fast the mode went and what throws doubt on its figures. It is empty before
// the first round.
func (m *Mode) Note() string {
	s := &m.seen
	if s.done == 0 {
		return ""
	}
	notes := []string{fmt.Sprintf("%.0f req/s", float64(s.done)/s.elapsed.Seconds())}
	if float64(s.done) < rateTolerance*float64(s.due) {
		notes = append(notes, fmt.Sprintf("NOT ALL OF %d OFFERED", s.due))
	}
	if s.failed > 0 {
		notes = append(notes, fmt.Sprintf("%d failed", s.failed))
	}
	for status, n := range s.status {
		if n > 0 && status != m.Status {
			notes = append(notes, fmt.Sprintf("%.2f %% status %d", 100*float64(n)/float64(s.done), status))
		}
	}
	return strings.Join(notes, ", ")
}

// Micros is d in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
