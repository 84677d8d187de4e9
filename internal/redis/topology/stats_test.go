package topology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// What a server states of its memory is known, and keys that it evicts are counted from the first look on.
func TestMemory(t *testing.T) {
	t.Parallel()
	const most = 16 << 20
	server := redistest.Start(t, redistest.Args("--maxmemory", fmt.Sprint(most), "--maxmemory-policy", "allkeys-lru"))
	s, stop := run(t, Config{Addrs: []string{server.Addr}, Timeout: 5 * time.Second}) // the machine may be busy
	defer stop()
	proc.Await(t, 20*time.Second, "what the test waits for", func() string {
		if m := s.Memory(); m.Known != 1 || m.Limit != most || m.Used == 0 || m.Fullest != float64(m.Used)/most {
			return fmt.Sprintf("%+v", m)
		}
		return ""
	})
	evicted := func() float64 { return measure.Of(s.Config.Metrics.Handler())["weir_redis_evicted_keys_total"] }
	if n := evicted(); n != 0 {
		t.Errorf("%v keys are counted as evicted, want none before the server is full", n)
	}
	value := strings.Repeat("x", 1<<20)
	for i := range 32 {
		server.Do("SET", fmt.Sprint("filler", i), value)
	}
	proc.Await(t, 20*time.Second, "what the test waits for", func() string {
		if n, want := evicted(), server.Info("stats")["evicted_keys"]; fmt.Sprint(n) != want || n == 0 {
			return fmt.Sprintf("%v keys are counted as evicted, the server counts %s", n, want)
		}
		return ""
	})
}
