package remote_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/remote"
	"github.com/weirlimit/weir/internal/telemetry"
)

// A replica states the identity of its region's store, and shows what it is told of its name: in a metric
// and in one line a minute. It decides as before.
func TestDoubled(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		var log bytes.Buffer
		metrics, receipts := telemetry.NewRegistry("test"), limiter.NewReceipts(nil, slog.New(slog.DiscardHandler))
		var tells atomic.Bool
		a.change = func(m *wire.Response) { m.RegionDoubled = tells.Load() }
		s := a.replica("eu", func(c *remote.Config) {
			c.Receipts, c.Metrics = receipts, metrics
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		for _, doubled := range []bool{false, true, false} {
			synctest.Wait()
			log.Reset()
			tells.Store(doubled)
			time.Sleep(150 * time.Second)
			synctest.Wait()
			if g := acquire(s, a.ask("ten", "k", 1))[0]; g.Granted != 1 {
				t.Errorf("told %v: %+v", doubled, g)
			}
			w := httptest.NewRecorder()
			metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			if shown := strings.Contains(w.Body.String(), "weir_remote_doubled 1\n"); shown != doubled {
				t.Errorf("told %v: the metric says %v", doubled, shown)
			}
			if n := strings.Count(log.String(), "\n"); doubled && (n < 2 || n > 3 || !strings.Contains(log.String(), "region=eu")) || !doubled && n > 0 {
				t.Errorf("told %v for 150 s: %d lines: %s", doubled, n, log.String())
			}
		}
		for _, c := range a.called() {
			if c.RegionStore == 0 || c.RegionStore != receipts.Identity() {
				t.Fatalf("a call states %x, want %x", c.RegionStore, receipts.Identity())
			}
		}
	})
}
