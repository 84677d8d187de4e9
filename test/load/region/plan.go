//go:build linux

package region

import "time"

// plan is how long each part of the benchmark runs. In the parts that compare
// services, each service and load has its turn, and that a few times, so that
// whatever else the machine does falls on all of them alike.
type plan struct {
	keys uint32 // of the uniform load

	turns  int           // of each service and load; one where there is no aim
	rounds int           // measured in a turn, without a rest
	round  time.Duration // of the closed loop
	fixed  time.Duration // of an open loop
	// settle is before the rounds of each turn. Leases run out within ten seconds
	// while a service waits for its turn, and what is unspent then goes back: lease
	// is settle where they matter, and how long to rest afterwards.
	settle, lease time.Duration

	acquireTurns int
	acquire      time.Duration // of each way of acquiring, in one of those

	attack time.Duration // on one key, of each kind

	stored     int           // keys whose bytes are counted
	storedTime time.Duration // but no more than are stored in this time, of each algorithm
}

var (
	fullPlan = plan{
		keys:  10_000,
		turns: 2, rounds: 3, round: 1500 * time.Millisecond, fixed: 1500 * time.Millisecond,
		settle: 700 * time.Millisecond, lease: 11 * time.Second,
		acquireTurns: 5, acquire: time.Second,
		attack: 5 * time.Second,
		stored: 100_000, storedTime: 5 * time.Minute,
	}
	quickPlan = plan{
		keys:  10_000,
		turns: 1, rounds: 1, round: 500 * time.Millisecond, fixed: 500 * time.Millisecond,
		settle: 300 * time.Millisecond, lease: 2 * time.Second,
		acquireTurns: 2, acquire: 300 * time.Millisecond,
		attack: 2 * time.Second,
		stored: 10_000, storedTime: 3 * time.Second,
	}
)

const (
	conns      = 64
	slowRate   = 1_500 // requests per second, where a service sleeps between them
	middleRate = 5_000 // requests per second that every service sustains
)
