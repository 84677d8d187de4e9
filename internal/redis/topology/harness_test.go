package topology

import (
	"context"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// idle is the use of nodes for tests that send nothing.
var idle = Use{
	Sender:      func(*Node) Sender { return sleeper{} },
	Connections: 1,
	Scripts:     []string{"return 1"},
	Probe:       "return 1",
	Key:         "weir:idle:",
}

type sleeper struct{}

func (sleeper) Run(ctx context.Context) { <-ctx.Done() }

// run runs a topology until stop.
func run(t *testing.T, c Config) (s *Topology, stop func()) {
	t.Helper()
	s = fatal.Get(New(c, idle))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	return s, func() { cancel(); <-ended }
}
