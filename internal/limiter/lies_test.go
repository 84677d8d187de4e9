package limiter_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// logged makes a region that writes its log into the buffer.
func logged(to *bytes.Buffer) func(*limiter.Config) {
	return func(c *limiter.Config) { c.Log = slog.New(slog.NewTextHandler(to, nil)) }
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

// liesAre fails the test unless so many give-backs of a rule were rejected.
func (r *region) liesAre(rule string, n int) {
	r.t.Helper()
	if line := fmt.Sprintf("weir_give_backs_rejected_total{rule=%q} %d\n", rule, n); !strings.Contains(scrape(r.metrics), line) {
		r.t.Errorf("no %s", line)
	}
}

// TestLiesAreTold: a give-back of more than two limits is counted by rule, once for each want
// however often the network brings the call. One line of the log in a minute names the holder, its
// region and address. Nothing of it is taken back, what else the want asks for is decided, and what
// others give back meanwhile is taken.
func TestLiesAreTold(t *testing.T) {
	var log bytes.Buffer
	r := newRegion(t, logged(&log))
	honest := &wire.Request{Protocol: 1, Holder: holderB, Seq: 1, Wants: []wire.Want{want("all", "", 60)}}
	out, _ := r.post(honest)
	taken := out.Grants[0]
	for n := range 5 {
		lies := r.call(wire.Want{Rule: "all", Shape: taken.Shape, Want: lease.Want{Unused: 201 + int64(n), Lease: taken.Lease, Need: 1, Waiting: 1, Want: 1}}, wire.Want{Rule: "all", Shape: taken.Shape, Want: lease.Want{Unused: 1 << 32, Lease: taken.Lease}})
		lies.Region, lies.Pop = "eu", "ams"
		for range 2 {
			out, _ = r.post(lies)
		}
		if n == 0 && out.Grants[0].Status != lease.Unavailable {
			t.Errorf("the second time: %+v", out.Grants)
		}
	}
	r.liesAre("all", 5)
	if left := r.grants(wire.Want{Rule: "all"})[0].Remaining; left != 35 {
		t.Errorf("%d of 100 are left after 60 and five times 1 were taken, want 35", left)
	}
	if strings.Contains(scrape(r.metrics), `weir_units_returned_total{rule="all"} 0`+"\n") == false {
		t.Error("what was not taken back is counted as returned")
	}
	told := lines(&log, "gives back more units")
	if len(told) != 1 {
		t.Fatalf("five lies in a minute are logged as %q", told)
	}
	for _, part := range []string{"level=WARN", "holder=" + strings.Repeat("61", 16), "region=eu", "pop=ams", "from=192.0.2.1:1234", "rule=all", "units=201", "most=200", "remedy="} {
		if !strings.Contains(told[0], part) {
			t.Errorf("no %s in %s", part, told[0])
		}
	}
	honest.Epoch, honest.Seq, honest.Wants = r.epoch, 2, []wire.Want{{Rule: "all", Shape: taken.Shape, Want: lease.Want{Unused: 60, Lease: taken.Lease}}}
	r.post(honest)
	if left := r.grants(wire.Want{Rule: "all"})[0].Remaining; left != 95 {
		t.Errorf("%d of 100 are left when 60 came back, want 95", left)
	}
	r.liesAre("all", 5)
}

// TestHonestGiveBacksAreNoLies: for two minutes after a limit was made smaller, also that of a key, a
// holder may give back what it was granted of the larger one. A limit of another shape, and slots,
// have no such give-backs.
func TestHonestGiveBacksAreNoLies(t *testing.T) {
	var log bytes.Buffer
	r := newRegion(t, logged(&log))
	r.setRules(keyRules(", { key: [acme], limit: 1000/1h }"))
	taken := r.grants(want("a", "acme", 900))[0]
	back := func(key string, units int64) wire.Want {
		return wire.Want{Rule: "a", Key: []byte(key), Shape: taken.Shape, Want: lease.Want{Unused: units, Lease: taken.Lease}}
	}
	for range 3 { // several changes in a short time
		r.setRules(keyRules(""))
		r.grants(back("acme", 900), back("other", 2000))
		r.advance(30 * limit.Second)
	}
	r.liesAre("a", 0)
	r.grants(back("acme", 2001))
	r.liesAre("a", 1)
	r.advance(2 * limit.Minute)
	r.grants(back("acme", 900))
	r.liesAre("a", 2)
	r.setRules(`rules: [{ name: a, key: [{ header: x-user }], limit: 10/1m, algorithm: fixed_window }, { name: upload, key: [client_ip], limit: 2, algorithm: concurrency }]`)
	r.grants(back("acme", 90), wire.Want{Rule: "upload", Want: lease.Want{Unused: 100, Holding: 1, Want: 1}})
	r.liesAre("a", 2)
	r.liesAre("upload", 0)
}

// TestRefusalsAreTold: the first want, and the first call, that is refused in a minute is in the
// log with who sent it. Text that a caller made up is cut.
func TestRefusalsAreTold(t *testing.T) {
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
	wants, calls := lines(&log, "a want is refused"), lines(&log, "a call is refused")
	if len(wants) != 1 || len(calls) != 1 {
		t.Fatalf("three wants and nine calls are logged as\n%s", log.String())
	}
	for _, part := range []string{"field=unused", "holder=" + strings.Repeat("61", 16), "from=192.0.2.1:1234"} {
		if !strings.Contains(wants[0], part) {
			t.Errorf("no %s in %s", part, wants[0])
		}
	}
	for _, part := range []string{`reason="holder: 5 bytes`, "from=192.0.2.1:1234"} {
		if !strings.Contains(calls[0], part) {
			t.Errorf("no %s in %s", part, calls[0])
		}
	}
}
