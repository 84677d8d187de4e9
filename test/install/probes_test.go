package install

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// probe is one of a container's, with Kubernetes' defaults.
type probe struct {
	path            string
	period, timeout time.Duration
	failures        int // in a row, until it counts as failed
}

func probeOf(t *testing.T, container node, name string) probe {
	t.Helper()
	of := at(t, container, name).(node)
	number := func(field string, otherwise int) int {
		if n, ok := of[field].(int); ok {
			return n
		}
		return otherwise
	}
	if port := at(t, of, "httpGet", "port"); port != "admin" {
		t.Errorf("%s asks the port %v", name, port)
	}
	return probe{
		path: at(t, of, "httpGet", "path").(string), period: time.Duration(number("periodSeconds", 10)) * time.Second,
		timeout: time.Duration(number("timeoutSeconds", 1)) * time.Second, failures: number("failureThreshold", 3),
	}
}

// kubelet does with a container what its probes say, ten times as often as they say: but it waits as
// long for an answer.
type kubelet struct {
	startup, readiness, liveness probe

	ready  atomic.Bool
	unsent atomic.Int64 // how often it was taken out of the service
	killed atomic.Bool
}

const kubeletSecond = time.Second / 10

// run asks until ctx ends or the container is to be killed.
func (k *kubelet) run(ctx context.Context, admin string) {
	started := false
	k.startup.ask(ctx, admin, func(ok bool) bool {
		started = ok
		k.killed.Store(!ok)
		return false
	})
	if !started {
		return
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		k.readiness.ask(ctx, admin, func(ok bool) bool {
			if k.ready.Swap(ok) && !ok {
				k.unsent.Add(1)
			}
			return true
		})
	})
	k.liveness.ask(ctx, admin, func(ok bool) bool {
		k.killed.Store(!ok)
		return ok
	})
}

// ask tells of each success, and of as many failures in a row as count as one, as long as tell wants more.
func (p probe) ask(ctx context.Context, admin string, tell func(ok bool) (more bool)) {
	client := &http.Client{Timeout: p.timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for failed := 0; ctx.Err() == nil; time.Sleep(time.Duration(p.period.Seconds() * float64(kubeletSecond))) {
		answer, err := client.Get("http://" + admin + p.path)
		if err == nil {
			answer.Body.Close()
		}
		if failed++; err == nil && answer.StatusCode == http.StatusOK {
			failed = 0
		}
		if (failed == 0 || failed >= p.failures) && ctx.Err() == nil && !tell(failed == 0) {
			return
		}
	}
}

// By the probes of the chart a pod that starts without Redis waits for it, longer than the startup probe
// would: it is neither killed nor called. It is called once Redis has answered. One answer that takes longer than
// the probe waits does not take it out again, and neither does an outage of Redis.
func TestProbesWithoutRedis(t *testing.T) {
	acl, err := os.ReadFile(filepath.Join(proc.Root(t), "internal", "redis", "redisstore", "weir.acl"))
	if err != nil {
		t.Fatal(err)
	}
	_, user, _ := strings.Cut(string(acl), "\nuser ") // below comments
	redis := redistest.StartCluster(t, 3, 0, redistest.Users("user "+strings.Replace(strings.TrimSpace(user), ">PASSWORD", ">secret", 1)))
	away := func() {
		for _, n := range redis.Nodes {
			n.Kill()
		}
	}
	m := newMachine(t, "redis-cluster.redis.svc:6379", redis.Addrs()[0])
	argv, admin := m.pod(regional, "eu", proc.FreeAddr(t), "weir://region/eu")
	container := regional.container(t)
	k := &kubelet{startup: probeOf(t, container, "startupProbe"), readiness: probeOf(t, container, "readinessProbe"), liveness: probeOf(t, container, "livenessProbe")}

	away()
	p := proc.Start(t, m.dir, "weir-regional", argv...)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx, admin) })
	defer running.Wait()
	defer end()
	patience := time.Now().Add(time.Duration(k.startup.period.Seconds()*float64(k.startup.failures+10)) * kubeletSecond)
	proc.Eventually(t, 0, "the time of the startup probe is over", func() bool { return k.killed.Load() || time.Now().After(patience) })
	if k.killed.Load() || k.ready.Load() || p.Exited() {
		t.Fatalf("without Redis the pod was killed (%v) or is called (%v)", k.killed.Load(), k.ready.Load())
	}
	for _, n := range redis.Nodes {
		n.Restart()
	}
	redis.Await()
	proc.Eventually(t, time.Minute, "the pod is called when Redis has answered", k.ready.Load)
	p.Pause()
	time.Sleep(k.readiness.timeout + time.Second/2) // longer than the probe waits, and not three times as long
	p.Resume()
	away()
	patience = time.Now().Add(30 * kubeletSecond)
	proc.Eventually(t, time.Minute, "half a minute without Redis is over", func() bool { return time.Now().After(patience) })
	if n := k.unsent.Load(); n > 0 || k.killed.Load() {
		t.Errorf("after a slow answer and without Redis the pod was taken out %d times, killed: %v", n, k.killed.Load())
	}
}
