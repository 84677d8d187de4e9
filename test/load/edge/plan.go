//go:build linux

package edge

import "time"

// plan is how long each part of the edge benchmark runs. Modes take turns: a
// round of each, then the next round of each, so that whatever else the machine
// does falls on all of them alike.
type plan struct {
	keys uint32 // of the traffic over many keys

	rounds int           // of the closed loop
	round  time.Duration // of one mode in one of those
	warm   time.Duration // before the first round of each mode; Weir: up to five times that

	fixedRounds int
	fixedRound  time.Duration

	// The whole path is not interleaved: leases expire while a PoP rests, so a
	// round after a rest would measure a start. Each traffic runs settle unmeasured
	// (a lease lives for 10 s), then chunks of chunk.
	settle time.Duration
	chunk  time.Duration
	chunks int

	liveKeys int64 // of the memory part

}

var (
	fullPlan = plan{
		keys:   10_000,
		rounds: 8, round: 1200 * time.Millisecond, warm: 2 * time.Second,
		fixedRounds: 6, fixedRound: 4 * time.Second,
		settle: 15 * time.Second, chunk: 8 * time.Second, chunks: 4,
		liveKeys: 600_000,
	}
	quickPlan = plan{
		keys:   1_000,
		rounds: 2, round: 700 * time.Millisecond, warm: time.Second,
		fixedRounds: 2, fixedRound: time.Second,
		settle: 2 * time.Second, chunk: 2 * time.Second, chunks: 3,
		liveKeys: 60_000,
	}
)

const (
	closedConns  = 32
	openConns    = 64
	memoryConns  = 256
	fixedRate    = 5_000  // requests per second, where everything costs more
	pathRate     = 20_000 // requests per second of the whole path
	zipfExponent = 0.99   // YCSB's
)
