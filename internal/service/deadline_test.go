package service_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// slowStore decides on the key "hung" never, and on all else by the store behind it.
type slowStore struct {
	engine.Store
	ends time.Time     // the deadline, when it was asked last
	left time.Duration // until then
	hung func()        // is called when it hangs; nil: nothing is
}

func (s *slowStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if ends, ok := ctx.Deadline(); ok {
		s.ends, s.left = ends, time.Until(ends)
	}
	hung := false
	for i := range asks {
		if string(asks[i].Key) == "hung" {
			hung, grants[i] = true, lease.Grant{Status: lease.Unavailable}
		} else {
			s.Store.Acquire(ctx, asks[i:i+1], grants[i:i+1])
		}
	}
	if hung {
		if s.hung != nil {
			s.hung()
		}
		<-ctx.Done()
	}
}

func newSlowRegion(t *testing.T) (*region, *slowStore) {
	store := new(slowStore)
	r := newRegion(t, func(c *service.Config) { store.Store, c.Store = c.Store, store })
	r.store = nil // it is behind the slow one
	return r, store
}

// A caller is answered before it gives up, with what was decided by then: in each case
// the store has at least the one and at most the other of the caller's time. On a machine
// that is late the store has less left, but its deadline is no earlier.
func TestAnswersBeforeTheCallerGivesUp(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, least, most time.Duration }{
		{100 * ms, 90 * ms, 90 * ms},
		{300 * ms, 280 * ms, 280 * ms},
		{10 * ms, 8 * ms, 8 * ms},
		{2 * ms, ms, ms},
		{0, 980 * ms, 980 * ms}, // it has none
	} {
		r, store := newSlowRegion(t)
		timeout := ""
		if c.timeout > 0 {
			timeout = strconv.FormatInt(c.timeout.Milliseconds(), 10)
		}
		began := time.Now()
		w := r.raw("application/proto", r.call(want("page", "hung", 1), want("page", "quick", 1)).Append(nil), "Connect-Timeout-Ms", timeout)
		var out wire.Response
		if err := out.Decode(w.Body.Bytes()); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v: %d %v", c.timeout, w.Code, err)
		}
		if given := store.ends.Sub(began); store.left > c.most || given < c.least {
			t.Errorf("%v: the store had %v of %v, want %v to %v", c.timeout, store.left, given, c.least, c.most)
		}
		if g := out.Grants; g[0].Status != lease.Unavailable || g[1].Status != lease.OK || g[1].Granted != 1 {
			t.Errorf("%v: %+v, want the one unavailable and the other granted", c.timeout, g)
		}
	}
}

// What is granted to a caller that has hung up meanwhile comes back.
func TestCallerThatHangsUp(t *testing.T) {
	r, store := newSlowRegion(t)
	ctx, hangUp := context.WithCancel(t.Context())
	store.hung = hangUp
	q := httptest.NewRequestWithContext(ctx, http.MethodPost, quotapbconnect.QuotaServiceAcquireProcedure,
		bytes.NewReader(r.call(want("page", "hung", 1), want("page", "k", 7)).Append(nil)))
	q.Header.Set("Content-Type", "application/proto")
	r.handler.ServeHTTP(httptest.NewRecorder(), q)

	var out wire.Response
	fatal.If(t, out.Decode(r.raw("application/proto", r.call(want("page", "k", 10)).Append(nil)).Body.Bytes()))
	if out.Grants[0].Granted != 10 {
		t.Errorf("10 of 10, of which nobody has any: %+v", out.Grants[0])
	}
	hasMetric(t, r.metrics, "weir_acquire_unheard_total 1")
}
