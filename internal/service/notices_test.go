package service_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// logged makes a region that writes its log there.
func logged(to *proc.Lines) func(*service.Config) {
	return func(c *service.Config) { c.Log = slog.New(slog.NewTextHandler(to, nil)) }
}

// told checks that one line of the log has this text, and all parts.
func told(t *testing.T, log *proc.Lines, text string, parts ...string) {
	t.Helper()
	found := log.With(text)
	if len(found) != 1 {
		t.Fatalf("%q is logged as %q, want one line in a minute", text, found)
	}
	for _, part := range append(parts, "level=WARN", "from=192.0.2.1:1234", "runbook=") {
		if !strings.Contains(found[0], part) {
			t.Errorf("no %s in %s", part, found[0])
		}
	}
}

// A give-back of more than two limits is counted by rule, and logged once a minute. Nothing of it is
// taken back, what else the want asks for is decided, and what others give back meanwhile is taken.
func TestGiveBacksAreRejected(t *testing.T) {
	var log proc.Lines
	r := newRegion(t, logged(&log))
	honest := &wire.Request{Protocol: 1, Holder: holderB, Seq: 1, Wants: []wire.Want{want("all", "", 60)}}
	out, _ := r.post(honest)
	taken := out.Grants[0]
	back := func(units int64) wire.Want {
		return wire.Want{Rule: "all", Shape: taken.Shape, Want: lease.Want{Unused: units, Lease: taken.Lease}}
	}
	for n := range int64(5) {
		w := back(201 + n)
		w.Need, w.Waiting, w.Want.Want = 1, 1, 1
		q := r.call(w, back(1<<32)) // the second is out of range
		q.Region, q.Pop = "eu", "ams"
		r.post(q)
	}
	if left := r.grants(wire.Want{Rule: "all"})[0].Remaining; left != 35 {
		t.Errorf("%d of 100 are left after 60 and five times 1 were taken, want 35", left)
	}
	honest.Seq, honest.Wants = 2, []wire.Want{back(60)}
	r.post(honest)
	if left := r.grants(wire.Want{Rule: "all"})[0].Remaining; left != 95 {
		t.Errorf("%d of 100 are left when 60 came back, want 95", left)
	}
	measure.Has(t, r.metrics.Handler(), `weir_give_backs_rejected_total{rule="all"} 5`, `weir_units_returned_total{rule="all"} 60`)
	told(t, &log, "give-back rejected", "holder="+strings.Repeat("61", 16), "region=eu", "pop=ams", "rule=all", "units=201")
}

// A call that comes again, or that an Envoy in between sends again, as it states, may have been applied by another
// process: nothing of it is applied here, it is counted, and logged once a minute.
func TestRepeatedCalls(t *testing.T) {
	var log proc.Lines
	r := newRegion(t, logged(&log))
	taken := r.grants(want("all", "", 90))[0]
	back := wire.Want{Rule: "all", Shape: taken.Shape, Want: lease.Want{Unused: 10, Lease: taken.Lease}}
	for i, c := range []struct {
		attempt string
		left    int64
	}{{"2", 10}, {"10", 10}, {"1", 20}, {"", 30}} {
		r.raw("application/proto", r.call(back).Append(nil), "x-envoy-attempt-count", c.attempt)
		if left := r.grants(wire.Want{Rule: "all"})[0].Remaining; left != c.left {
			t.Errorf("call %d, attempt %q: %d of 100 are left, want %d", i, c.attempt, left, c.left)
		}
	}
	req := r.call(want("all", "", 2))
	r.post(req)
	if again, _ := r.post(req); !again.Dropped || again.Grants[0].Status != lease.Unavailable || again.Grants[0].Granted != 0 {
		t.Errorf("the second time: %+v", again)
	}
	req.Holder = holderB
	if out, _ := r.post(req); out.Grants[0].Granted != 2 || out.Grants[0].Remaining != 26 || out.Holders != 2 {
		t.Errorf("the same seq of another holder: %+v, want a grant and 2 holders", out)
	}
	measure.Has(t, r.metrics.Handler(), "weir_acquire_duplicates_total 3")
	told(t, &log, "repeated call dropped", "holder="+strings.Repeat("61", 16))
}

// TestRejectionsAreTold: the first want, and the first call, that is rejected in a minute is in the
// log with who sent it. Text that a caller made up is cut.
func TestRejectionsAreTold(t *testing.T) {
	var log proc.Lines
	r := newRegion(t, logged(&log))
	for range 3 {
		r.grants(wire.Want{Rule: "page", Want: lease.Want{Unused: 1 << 40}})
		r.post(&wire.Request{Protocol: 1, Holder: []byte("short"), Seq: 1, Region: strings.Repeat("x", 1000)})
		r.post(&wire.Request{Protocol: 99, Holder: holderA, Seq: 1})
		r.raw("application/proto", []byte{0x3a, 0x7f})
	}
	if log.With("xxx") != nil {
		t.Error("the text of a rejected call is in the log")
	}
	told(t, &log, "want rejected", "field=unused", "holder="+strings.Repeat("61", 16))
	told(t, &log, "call rejected", `reason="holder: 5 bytes`)
}
