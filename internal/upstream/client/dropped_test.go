package client_test

import (
	"bytes"
	"log/slog"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/wire"
)

// A call with a huge number under a replica's id, or a replica that goes on from an old snapshot, costs that
// replica one call at a time.
func TestDroppedCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		var log bytes.Buffer
		s := a.replica("eu", func(c *client.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		took := func() bool { return acquire(s, a.ask("hundred", "k", 1))[0].Granted == 1 }
		if !took() {
			t.Fatal("nothing is granted")
		}
		for n := range 5 {
			last := a.called()[len(a.called())-1]
			forged := wire.Request{Protocol: 1, Holder: last.Holder, Worker: last.Worker, Region: "eu", Seq: math.MaxUint64 - uint64(n)}
			r := httptest.NewRequest("POST", quotapbconnect.QuotaServiceAcquireProcedure, bytes.NewReader(forged.Append(nil)))
			r.Header.Set("Content-Type", "application/proto")
			a.handler.ServeHTTP(httptest.NewRecorder(), r)
			if g := acquire(s, a.ask("hundred", "k", 1))[0]; g.Status != lease.Unavailable {
				t.Errorf("%d: the call after it: %+v", n, g)
			}
			dropped := a.called()[len(a.called())-1]
			for range 3 {
				if !took() {
					t.Errorf("%d: nothing is granted afterwards", n)
				}
			}
			if next := a.called()[len(a.called())-1]; next.Seq <= dropped.Seq || next.Worker == dropped.Worker {
				t.Errorf("%d: call %d as %d, then call %d as %d", n, dropped.Seq, dropped.Worker, next.Seq, next.Worker)
			}
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "dropped a call") {
			t.Errorf("%d lines in a minute:\n%s", n, log.String())
		}
	})
}
