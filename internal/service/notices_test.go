package service_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
)

// logged makes a region that writes its log into the buffer.
func logged(to *bytes.Buffer) func(*service.Config) {
	return func(c *service.Config) { c.Log = slog.New(slog.NewTextHandler(to, nil)) }
}

// lines are the lines of a log that contain a text.
func lines(log *bytes.Buffer, text string) (found []string) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// told checks that one line of the log has this text, and all parts.
func told(t *testing.T, log *bytes.Buffer, text string, parts ...string) {
	t.Helper()
	found := lines(log, text)
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
	var log bytes.Buffer
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
	hasMetric(t, r.metrics, `weir_give_backs_rejected_total{rule="all"} 5`, `weir_units_returned_total{rule="all"} 60`)
	told(t, &log, "give-back rejected", "holder="+strings.Repeat("61", 16), "region=eu", "pop=ams", "rule=all", "units=201")
}

// A repeated call is counted and logged.
func TestRepeatedCalls(t *testing.T) {
	var log bytes.Buffer
	r := newRegion(t, logged(&log))
	q := r.call(want("all", "", 1))
	for range 4 {
		q.Seq++
		r.post(q)
		r.post(q)
	}
	hasMetric(t, r.metrics, "weir_acquire_duplicates_total 4")
	told(t, &log, "repeated call dropped", "holder="+strings.Repeat("61", 16))
}

// TestRejectionsAreTold: the first want, and the first call, that is refused in a minute is in the
// log with who sent it. Text that a caller made up is cut.
func TestRejectionsAreTold(t *testing.T) {
	var log bytes.Buffer
	r := newRegion(t, logged(&log))
	for range 3 {
		r.grants(wire.Want{Rule: "page", Want: lease.Want{Unused: 1 << 40}})
		r.post(&wire.Request{Protocol: 1, Holder: []byte("short"), Seq: 1, Region: strings.Repeat("x", 1000)})
		r.post(&wire.Request{Protocol: 99, Holder: holderA, Seq: 1})
		r.raw("application/proto", []byte{0x3a, 0x7f})
	}
	if lines(&log, "xxx") != nil {
		t.Error("the text of a refused call is in the log")
	}
	told(t, &log, "want refused", "field=unused", "holder="+strings.Repeat("61", 16))
	told(t, &log, "call refused", `reason="holder: 5 bytes`)
}
