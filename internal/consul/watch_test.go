package consul

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// list is what a watch returned, one text for each call.
type list struct {
	mu    sync.Mutex
	calls []string
}

func (l *list) set(addresses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, strings.Join(addresses, " "))
}

func (l *list) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// await waits until the last call was this one.
func (l *list) await(t *testing.T, want string) {
	t.Helper()
	proc.Await(t, news, "the watch", func() string {
		if calls := l.all(); len(calls) == 0 || calls[len(calls)-1] != want {
			return fmt.Sprintf("calls %q, want %q at the end", calls, want)
		}
		return ""
	})
}

// A watch follows those that pass.
func watches(t *testing.T, c *consultest.Agent, service string) {
	a, _ := newAgent(t, Config{Address: c.Addr})
	l := new(list)
	run(t, a.Watch("replicas", service, "", l.set))
	l.await(t, "")
	one, two := startReplica(t, a, service, "127.0.0.1", 8080), startReplica(t, a, service, "127.0.0.1", 8081)
	l.await(t, "127.0.0.1:8080 127.0.0.1:8081")
	one.setReady(false)
	l.await(t, "127.0.0.1:8081")
	one.setReady(true)
	l.await(t, "127.0.0.1:8080 127.0.0.1:8081")
	two.stop()
	l.await(t, "127.0.0.1:8080")
}

// lookup asks Consul's DNS for the addresses of a name.
func lookup(c *consultest.Agent, name string) string {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", c.DNS)
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	addresses, err := r.LookupHost(ctx, name+".service.consul.")
	if err != nil {
		return err.Error()
	}
	slices.Sort(addresses)
	return strings.Join(addresses, " ")
}

// An answer that is not newer than the last one is no news, though it differs. One of an earlier
// state has the question asked anew, which the leader answers.
func TestOldAnswers(t *testing.T) {
	answers := []struct {
		asked, index uint64
		found        string
	}{{0, 18, "a"}, {18, 18, ""}, {18, 12, ""}, {0, 12, "b"}, {12, 13, ""}}
	a, _ := newAgent(t, Config{Address: "127.0.0.1:1"})
	ctx, cancel := context.WithCancel(t.Context())
	var changes []string
	f := &follow[string]{
		task: a.task("test"),
		same: func(a, b string) bool { return a == b },
		ask: func(o *api.QueryOptions) (string, *api.QueryMeta, error) {
			next := answers[0]
			if answers = answers[1:]; o.WaitIndex != next.asked {
				t.Errorf("asked with index %d, want %d", o.WaitIndex, next.asked)
			}
			if len(answers) == 0 {
				cancel()
			}
			return next.found, &api.QueryMeta{LastIndex: next.index}, nil
		},
		changed: func(_ context.Context, found string) error { changes = append(changes, found); return nil },
	}
	if err := f.run(ctx); err != nil || !slices.Equal(changes, []string{"a", "b", ""}) {
		t.Errorf("%q, %v, want a, b and nothing", changes, err)
	}
}
