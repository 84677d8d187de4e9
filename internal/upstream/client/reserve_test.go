package client_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/wire"
)

// record is what a region states, and what it was told.
type record struct {
	states   reserve.Statement
	replies  []reserve.Reply
	after    []time.Duration // since the call was sent
	rejected []string
}

func (r *record) Statement() (reserve.Statement, bool) { return r.states, r.states.ID != 0 }
func (r *record) Rejected(_ uint64, reason string)     { r.rejected = append(r.rejected, reason) }
func (r *record) Replied(sent time.Time, p reserve.Reply) {
	r.replies, r.after = append(r.replies, p), append(r.after, time.Since(sent))
}

// Each call has the statement of the moment in which it is made, and its reply comes with that record's ID and the time of
// the call. A call that fails brings none.
func TestStatements(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		a.change = func(m *wire.Response) {
			m.Reserve = &reserve.Reply{At: 5, Share: reserve.Share{No: 3, Part: 250, Since: 4}}
		}
		a.delay.Store(int64(50 * time.Millisecond))
		var r record
		s := a.replica("eu", func(c *client.Config) { c.Reserve = &r })
		acquire(s, a.ask("hundred", "k", 1))
		if call := a.called()[0]; call.Reserve != nil || len(r.replies) != 0 {
			t.Errorf("%+v is stated, and %+v was told, before there is a record", call.Reserve, r.replies)
		}
		r.states = reserve.Statement{ID: 7, Until: 9, Used: []reserve.Span{{After: 1, Until: 2}}, No: 3, Part: 250}
		acquire(s, a.ask("hundred", "k", 1))
		if call := a.called()[1]; call.Reserve == nil || call.Reserve.ID != 7 || call.Reserve.Until != 9 || len(call.Reserve.Used) != 1 {
			t.Errorf("%+v is stated", call.Reserve)
		}
		if len(r.replies) != 1 || r.replies[0].ID != 7 || r.replies[0].At != 5 || r.replies[0].Share.Part != 250 || r.after[0] != 100*time.Millisecond {
			t.Errorf("%+v was told %v after", r.replies, r.after)
		}
		a.hangs.Store(true)
		acquire(s, a.ask("hundred", "k", 1))
		if len(r.replies) != 1 {
			t.Errorf("%+v was told without an answer", r.replies[1:])
		}
	})
}

// A statement that is rejected as impossible goes back to the record; a second record of one region is named in the log,
// once a minute.
func TestRejectedStatements(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		var log bytes.Buffer
		r := record{states: reserve.Statement{ID: 7}}
		s := a.replica("eu", func(c *client.Config) { c.Reserve, c.Log = &r, slog.New(slog.NewTextHandler(&log, nil)) })
		reject := func(body string) {
			t.Helper()
			a.rejects.Store(&body)
			if g := acquire(s, a.ask("hundred", "k", 1))[0]; g.Status != lease.Unavailable {
				t.Errorf("%s: %+v", body, g)
			}
		}
		reject(`{"code":"invalid_argument","message":"reserve.until: a year ahead"}`)
		reject(`{"code":"invalid_argument","message":"holder: has 3 bytes"}`)
		if len(r.rejected) != 1 || r.rejected[0] != "reserve.until: a year ahead" {
			t.Errorf("rejected: %q", r.rejected)
		}
		reject(`{"code":"failed_precondition","message":"another store speaks for this region"}`)
		time.Sleep(10 * time.Second) // probes
		if n := strings.Count(log.String(), "rejects the calls"); n != 1 || len(r.rejected) != 1 {
			t.Errorf("%d lines of that, want 1; rejected: %q\n%s", n, r.rejected, log.String())
		}
	})
}

// A rule that the aggregator lacks is known by name until it answers on it.
func TestLacks(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		s := a.replica("eu")
		unknown := true
		a.change = func(m *wire.Response) {
			for i := range m.Grants {
				if unknown {
					m.Grants[i] = wire.Grant{Grant: lease.Grant{Status: lease.UnknownRule}}
				}
			}
		}
		if g := acquire(s, a.ask("hundred", "k", 1))[0]; g.Status != lease.Unavailable || !s.RuleUnknown("hundred") || s.RuleUnknown("ten") {
			t.Errorf("%+v; unknown: hundred: %v, ten: %v", g, s.RuleUnknown("hundred"), s.RuleUnknown("ten"))
		}
		unknown = false
		if g := acquire(s, a.ask("hundred", "k", 1))[0]; g.Status != lease.OK || s.RuleUnknown("hundred") {
			t.Errorf("%+v; unknown: hundred: %v", g, s.RuleUnknown("hundred"))
		}
	})
}
