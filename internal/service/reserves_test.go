package service_test

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
)

// hearer hears regions, and says err, or what it is told to.
type hearer struct {
	heard []reserve.Statement
	calls int
	reply *reserve.Reply
	err   error
}

func (h *hearer) Heard(region string, s *reserve.Statement) (*reserve.Reply, error) {
	if h.calls++; s != nil {
		h.heard = append(h.heard, *s)
	}
	return h.reply, h.err
}

// What a region states is heard once, before its call is decided, and answered with it. An error refuses the call: nothing of
// it is applied, and for the region it is as if nobody had answered.
func TestReserves(t *testing.T) {
	h := &hearer{reply: &reserve.Reply{At: 5, Share: reserve.Share{No: 2, Part: 250}}}
	r := newRegion(t, func(c *service.Config) { c.Reserves = h })
	ask := func() *wire.Request {
		call := r.call(want("page", "k", 1))
		call.Region, call.Reserve = "eu", &reserve.Statement{ID: 7, Until: 9}
		return call
	}
	call := ask()
	answer, failure := r.post(call)
	if failure != "" || answer.Reserve == nil || answer.Reserve.Share.Part != 250 || answer.Grants[0].Granted != 1 {
		t.Fatalf("%+v, %s", answer, failure)
	}
	if len(h.heard) != 1 || h.heard[0].ID != 7 || h.heard[0].Until != 9 {
		t.Errorf("heard %+v", h.heard)
	}
	if answer, failure = r.post(call); failure != "" || answer.Reserve != nil || !answer.Dropped || h.calls != 1 {
		t.Errorf("a call that comes again: %+v, %s, heard %d times", answer, failure, h.calls)
	}
	if answer, failure = r.post(r.call(want("page", "k", 1))); failure != "" || answer.Reserve != nil || h.calls != 1 {
		t.Errorf("a call of no region: %+v, %s, heard %d times", answer, failure, h.calls)
	}
	left := r.grants(want("page", "k", 0))[0].Remaining
	impossible := new(reserve.StatementError)
	for _, c := range []struct {
		err    error
		status int
	}{
		{errors.New("no store"), http.StatusServiceUnavailable},
		{impossible, http.StatusBadRequest},
		{reserve.ErrOtherRecord, http.StatusBadRequest},
		{reserve.ErrTooManyRegions, http.StatusBadRequest},
	} {
		h.err = c.err
		if w := r.raw("application/proto", ask().Append(nil)); w.Code != c.status || !bytes.Contains(w.Body.Bytes(), []byte(c.err.Error())) {
			t.Errorf("%v: %d %s, want %d", c.err, w.Code, w.Body, c.status)
		}
	}
	h.err = nil
	if now := r.grants(want("page", "k", 0))[0].Remaining; now != left {
		t.Errorf("%d are left of %d: a call that was refused was applied", now, left)
	}
}
