//go:build linux

package shed

import "time"

// scenario is what the load and the upstream do. Its times are in seconds of a full run.
type scenario struct {
	name, title string
	orca        bool                                  // answers state the load, and Weir knows of nothing else
	offered     float64                               // in the load; multiples of the capacity
	slower      func(at float64, replica int) float64 // in the load; nil: no replica is
	to          float64                               // when the load ends that begins at calm
	settled     float64                               // when everything has settled; 0: never
}

const (
	lasts    = 40.0 // how long a scenario takes
	calm     = 5.0  // how long it is calm before the load
	resting  = 0.5  // what is offered then, and after the load, in multiples of the capacity
	overload = 3.0
	half     = 4.0 // of the backend's flapping
)

var scenarios = []*scenario{
	{name: "step", title: "Step to 3 × capacity", to: 27, settled: 15, offered: overload},
	{name: "flapping", title: "0.9 × capacity; for 4 s of every 8 all replicas are three times slower", to: 29, offered: 0.9,
		slower: func(at float64, _ int) float64 {
			if int((at-calm)/half)%2 == 0 {
				return 3
			}
			return 1
		}},
	{name: "slow", title: "0.9 × capacity, and one replica of three is four times slower", to: 27, settled: 15, offered: 0.9,
		slower: func(_ float64, replica int) float64 {
			if replica == 0 {
				return 4
			}
			return 1
		}},
	{name: "orca", title: "Step to 3 × capacity, which Weir sees in the load that answers state, and in nothing else",
		orca: true, to: 27, settled: 15, offered: overload},
}

func (s *scenario) loaded(at float64) bool { return at >= calm && at < s.to }

// rate is what is offered at a time, in requests per second.
func (s *scenario) rate(at float64) float64 {
	if s.loaded(at) {
		return s.offered * capacity
	}
	return resting * capacity
}

// slowdown is how many times longer than usual work takes at a replica.
func (s *scenario) slowdown(at float64, replica int) float64 {
	if s.slower == nil || !s.loaded(at) {
		return 1
	}
	return s.slower(at, replica)
}

// plan is how fast scenarios go by.
type plan struct{ pace float64 } // seconds of a full run in one second

// at is the time in a scenario so long after its begin.
func (p plan) at(since time.Duration) float64 { return since.Seconds() * p.pace }

// since is how long after its begin a time in a scenario is.
func (p plan) since(at float64) time.Duration {
	return time.Duration(at / p.pace * float64(time.Second))
}
