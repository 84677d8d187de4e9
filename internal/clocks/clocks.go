// Package clocks compares the clock of another machine with that of this one, and logs when they
// are apart.
package clocks

import (
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/repeat"
)

// Tolerance is how far clocks may be apart before that is logged: a fifth of the shortest
// window that regions share. Clocks that NTP sets are some milliseconds apart.
const Tolerance = 2 * time.Second

// Offset is by how much another clock is ahead of ours: surely between Least and Most.
type Offset struct{ Least, Most time.Duration }

// Measure returns the offset of a clock that showed a time, cut off to its resolution, at a
// moment between sent and received by our clock.
func Measure(shown time.Time, resolution time.Duration, sent, received time.Time) Offset {
	return Offset{Least: shown.Sub(received), Most: shown.Add(resolution).Sub(sent)}
}

// Middle is the best guess.
func (o Offset) Middle() time.Duration { return o.Least + (o.Most-o.Least)/2 }

// Apart reports whether the clocks are surely further apart than Tolerance, however long the
// message took.
func (o Offset) Apart() bool { return o.Least > Tolerance || o.Most < -Tolerance }

// Agree reports whether the clocks are surely not further apart than Tolerance.
func (o Offset) Agree() bool { return o.Least >= -Tolerance && o.Most <= Tolerance }

// Other is the clock of another machine. The zero value is one that has not been read yet. It
// is safe for concurrent use.
type Other struct {
	offset atomic.Pointer[Offset] // nil: not known yet
	apart  atomic.Bool
	logged repeat.Seldom
}

// Note keeps an offset, and logs if the clocks are apart: at most once a minute, with whose
// clock it is and what follows.
func (c *Other) Note(o Offset, log *slog.Logger, whose, address, effect string) {
	c.offset.Store(&o)
	switch {
	case o.Apart():
		c.apart.Store(true)
		if c.logged.Now() {
			log.Warn("the clocks of "+whose+" and of this machine are apart: "+effect+"; set the wrong one by NTP, such as chrony",
				"address", address, "ahead", o.Middle().Round(10*time.Millisecond).String())
		}
	case o.Agree() && c.apart.Swap(false):
		log.Info("the clocks of "+whose+" and of this machine agree again", "address", address)
	}
}

// Ahead is by how many seconds the clock is ahead of ours, by the last measurement; not a number
// before the first one.
func (c *Other) Ahead() float64 {
	if o := c.offset.Load(); o != nil {
		return o.Middle().Seconds()
	}
	return math.NaN()
}

// Metric and Help are of the gauge that shows the clocks of each kind of machine, with the label "of".
const (
	Metric = "weir_clock_offset_seconds"
	Help   = "By how much another clock is ahead of this machine's: of the aggregator, or of the Redis master that is furthest off. Not a number until it has answered."
)
