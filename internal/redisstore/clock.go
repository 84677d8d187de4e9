package redisstore

import (
	"context"
	"math"
	"time"

	"github.com/weirlimit/weir/internal/clocks"
)

// readClock compares the node's clock, by which its keys are counted, with ours. Probes
// find a node that does not answer.
func (n *node) readClock(ctx context.Context) {
	sent := time.Now()
	shown, err := n.client.Load().Time(ctx).Result()
	if err != nil {
		return
	}
	n.clock.Note(clocks.Measure(shown, time.Microsecond, sent, time.Now()), n.store.config.Log, "a Redis master", n.addr,
		"the windows of its keys begin at other times than those of other masters and tiers, and begin anew when it is set right or another node takes over")
}

// clockAhead is by how many seconds the clock of the master that is furthest off is ahead of ours.
func (s *Store) clockAhead() float64 {
	furthest := math.NaN()
	for _, n := range s.serving() {
		if ahead := n.clock.Ahead(); math.IsNaN(furthest) || math.Abs(ahead) > math.Abs(furthest) {
			furthest = ahead
		}
	}
	return furthest
}
