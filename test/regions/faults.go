package regions

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/stack"
)

// masters are a Redis Cluster, of which some are down.
type masters struct {
	*redistest.Cluster

	t    proc.T
	dead []*redistest.Server
}

// nodeTimeout is more than a node of Redis may be held up by a machine that starts a world.
const nodeTimeout = 5 * time.Second

func startMasters(t proc.T, replicasEach int) *masters {
	t.Helper()
	return &masters{redistest.StartCluster(t, 3, replicasEach, redistest.NodeTimeout(nodeTimeout)), t, nil}
}

// Kill kills the master that has a key with these parts in its name, in turn.
func (m *masters) Kill(parts ...string) {
	m.t.Helper()
	name := "*" + strings.Join(parts, "*") + "*"
	for _, server := range m.Masters() {
		if slices.Contains(m.dead, server) {
			continue
		}
		if keys, _ := server.Do("KEYS", name).([]any); len(keys) > 0 {
			m.dead = append(m.dead, server)
			server.Kill()
			return
		}
	}
	m.t.Fatalf("no master of Redis has a key named %s", name)
}

// start starts what was killed, empty.
func (m *masters) start() {
	for _, server := range m.dead {
		server.Restart()
	}
	m.dead = nil
}

type links []*stack.Link

func (all links) each(do func(*stack.Link)) {
	for _, l := range all {
		do(l)
	}
}

// cut lets nothing pass in either direction, with connections left open.
func cut(l *stack.Link) {
	l.SwallowCalls()
	l.Swallow()
}

// SetTrip sets how long a call of a region to an aggregator, or for the rules in another region,
// and its reply travel.
func (w *World) SetTrip(d time.Duration) {
	for _, r := range w.Regions {
		r.Links.each(func(l *stack.Link) { l.SetTrip(d) })
		if r.toConsul != nil {
			r.toConsul.SetTrip(d)
		}
	}
}
