package upstream_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// read is the record in the region's store.
func (r *region) read() (s struct {
	Region string
	reserve.Record
}) {
	r.t.Helper()
	fatal.If(r.t, json.Unmarshal([]byte(r.stored()), &s))
	return s
}

// The reserve is renounced while calls are answered, until three seconds after the aggregator's time, and no longer. What
// a region states is stored.
func TestRenounces(t *testing.T) {
	inWorld(t, func(w *region) {
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			if ahead := w.read().Until - clock(); ahead < reserve.Ahead-limit.Second || ahead > reserve.Ahead {
				t.Fatalf("renounced until %d ms from now", ahead/limit.Millisecond)
			}
			if s, _ := w.keeper.Statement(); s.Until != w.read().Until || s.ID != w.read().ID {
				t.Fatalf("states %+v, stored is %s", s, w.stored())
			}
		}
		if share, known := w.keeper.Share(); share != shares[eu] || !known {
			t.Errorf("the share is %d, %v", share, known)
		}
		w.link(false)
		time.Sleep(3 * time.Second) // replies count for two
		was := w.read().Until
		time.Sleep(10 * time.Second)
		if w.read().Until != was || !w.keeper.InUse() || strings.Count(w.logs(), "aggregator does not decide") != 1 {
			t.Errorf("%s, renounced until %d before; the log:\n%s", w.stored(), was, w.logs())
		}
		w.link(true)
		time.Sleep(2 * time.Second)
		if w.read().Until <= clock() || w.keeper.InUse() || strings.Count(w.logs(), "decides again") != 1 {
			t.Errorf("%s when the region is back; the log:\n%s", w.stored(), w.logs())
		}
	})
}

// A record that is none is replaced, and the log says so.
func TestBadRecords(t *testing.T) {
	for name, c := range map[string]struct{ text, log string }{
		"no JSON":              {"hello", "cannot read"},
		"of another region":    {`{"Region":"us","ID":5,"Until":1}`, "record of region us"},
		"a share above 1":      {`{"Region":"eu","ID":5,"Until":1,"Share":{"No":1,"Part":1001}}`, "out of range"},
		"a span of bad order":  {`{"Region":"eu","ID":5,"Until":9,"Used":[{"After":7,"Until":3}]}`, "in this order"},
		"renounced for a year": {`{"Region":"eu","ID":5,"Until":978307200000000}`, "no aggregator on this store has told that"},
		"no ID":                {`{"Region":"eu","ID":0,"Until":7}`, "must be random"},
	} {
		inWorld(t, func(w *region) {
			w.cell.set([]byte(c.text))
			time.Sleep(5 * time.Second)
			if now := w.read(); now.ID == 5 || now.Until < clock() || now.Until > clock()+reserve.Unknown || now.Share.Part != shares[eu] {
				t.Errorf("%s: %+v", name, now)
			}
			if log := w.logs(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, c.log) {
				t.Errorf("%s: the log has\n%s", name, log)
			}
			p := w.policy("r", perMinute(400))
			w.link(false)
			time.Sleep(time.Minute)
			w.spends(p, 100, name+": while the region is cut off")
		})
	}
}

// The windows of a region's reserve are those of all limits with shares, each once.
func TestWindowsOf(t *testing.T) {
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte(`
regions: { eu: 1 }
rules:
  - { name: a, key: [ { header: x-key } ], limit: 10/1m, algorithm: fixed_window, scope: global, overrides: [ { key: [k], limit: 20/1m } ] }
  - { name: b, key: [], limit: 10/1h, algorithm: fixed_window, scope: global, overrides: [ { when: { header: { x-tier: gold } }, limit: 100/1h } ] }
  - { name: c, key: [ { header: x-key } ], limit: { count: 10, per: 1m, burst: 10 }, algorithm: token_bucket, scope: global, overrides: [ { key: [k], limit: { count: 10, per: 1m, burst: 20 } } ] }
  - { name: allows, key: [], limit: 10/1d, algorithm: fixed_window, scope: global, on_failure: allow }
  - { name: near, key: [], limit: 10/30m, algorithm: fixed_window }
`)))(t)
	want := []reserve.Window{{Period: limit.Minute}, {Period: limit.Hour}, {Period: limit.Minute, Refills: true}, {Period: 2 * limit.Minute, Refills: true}}
	if got := upstream.WindowsOf(set); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A record that cannot be read is stated as it was stored last, and nothing is renounced.
func TestNothingIsRenouncedUnread(t *testing.T) {
	inWorld(t, func(w *region) {
		w.cell.fails.Store(true)
		before, _ := w.keeper.Statement()
		time.Sleep(4 * time.Second)
		if log := w.logs(); log != "" {
			t.Errorf("after four seconds the log has\n%s", log)
		}
		time.Sleep(6 * time.Second)
		if s, ok := w.keeper.Statement(); !ok || s.Until != before.Until {
			t.Errorf("%+v, want %+v", s, before)
		}
		if log := w.logs(); strings.Count(log, "cannot use the record of the reserve") != 1 {
			t.Errorf("the log has\n%s", log)
		}
		w.cell.fails.Store(false)
		time.Sleep(time.Second)
		if s, _ := w.keeper.Statement(); s.Until <= clock() {
			t.Errorf("%+v when the record can be read again", s)
		}
	})
}
