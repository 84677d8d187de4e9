package topology

import (
	"context"
	"testing"
	"time"

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

// start runs a topology for as long as the test, and waits until it is ready.
func start(t *testing.T, c Config) *Topology {
	t.Helper()
	c.Timeout = 5 * time.Second // the machine may be busy
	s := fatal.Get(New(c, idle))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fatal.If(t, s.Ready(patience))
	return s
}
