package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

const restartRules = `rules:
- { name: bucket, key: [client_ip], limit: { count: 10, per: 1d, burst: 20 }, algorithm: token_bucket, consistency: exact }
- { name: fixed, key: [client_ip], limit: 10/300d, algorithm: fixed_window, consistency: exact }
- { name: sliding, key: [client_ip], limit: 10/300d, algorithm: sliding_window, consistency: exact }
- { name: log, key: [client_ip], limit: 10/1h, algorithm: sliding_log, consistency: exact }
- { name: leased, key: [client_ip], limit: 1000/300d, algorithm: fixed_window }
- { name: slots, key: [client_ip], limit: 5, algorithm: concurrency, lease: { ttl: 10m } }
`

// unitRules are those of restartRules that count units, with what a new key has.
var unitRules = map[string]int64{"bucket": 20, "fixed": 10, "sliding": 10, "log": 10, "leased": 1000}

// restarted starts a region on a state file with restartRules.
func restarted(t *testing.T, state string, flags ...string) *process {
	t.Helper()
	return start(t, region.Config{Rules: restartRules, Flags: append([]string{"--state", state}, flags...)})
}

// holder is one PoP, with what it keeps of the region.
type holder struct {
	t    *testing.T
	name byte
	seq  uint64

	holders uint32 // of the region, as it answered last
}

// ask asks for counters.
func (h *holder) ask(p *process, wants ...wire.Want) []wire.Grant {
	h.t.Helper()
	h.seq++
	req := wire.Request{Protocol: 1, Holder: bytes.Repeat([]byte{h.name}, 16), Seq: h.seq, Ack: h.seq - 1, Wants: wants}
	r := fatal.Get(http.Post(p.quota+quotapbconnect.QuotaServiceAcquireProcedure, "application/proto", bytes.NewReader(req.Append(nil))))(h.t)
	defer r.Body.Close()
	body := fatal.Get(io.ReadAll(r.Body))(h.t)
	var out wire.Response
	if err := out.Decode(body); r.StatusCode != 200 || err != nil || len(out.Grants) != len(wants) {
		h.t.Fatalf("status %d: %s", r.StatusCode, body)
	}
	h.holders = out.Holders
	return out.Grants
}

func units(rule, key string, n int64) wire.Want {
	return wire.Want{Rule: rule, Key: []byte(key), Want: lease.Want{Need: n, Waiting: n, Want: n}}
}

// left is what the region has left of each unit rule for a key.
func (h *holder) left(p *process, key string) map[string]int64 {
	h.t.Helper()
	left := map[string]int64{}
	for rule := range unitRules {
		left[rule] = h.ask(p, wire.Want{Rule: rule, Key: []byte(key)})[0].Remaining
	}
	return left
}

// A region that ends on SIGTERM and is started again goes on to the unit: counters, leases that come back, and slots.
func TestOrderlyRestart(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "sub", "state")
	p := restarted(t, state)
	h := &holder{t: t, name: 'a'}
	leases := map[string]wire.Grant{}
	for rule := range unitRules {
		for range 3 {
			leases[rule] = h.ask(p, units(rule, "k", 2))[0]
		}
	}
	slots := wire.Want{Rule: "slots", Key: []byte("k"), Want: lease.Want{Need: 3, Waiting: 3, Want: 3}}
	if g := h.ask(p, slots)[0]; g.Granted != 3 {
		t.Fatalf("slots: %+v", g)
	}
	for name := byte('x'); name <= 'z'; name++ {
		(&holder{t: t, name: name}).ask(p, units("fixed", "of others", 1))
	}
	back := func(rule string) wire.Want {
		return wire.Want{Rule: rule, Key: []byte("k"), Shape: leases[rule].Shape, Want: lease.Want{Unused: 1, Lease: leases[rule].Lease}}
	}
	h.ask(p, back("leased"))
	before := h.left(p, "k")
	for range 2 { // the second goes on from the first
		p.Stop()
		p = restarted(t, state)
		p.waitFor("loaded counters")
		if after := h.left(p, "k"); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("left before %v, after %v", before, after)
		}
		if h.holders != 4 {
			t.Fatalf("the first PoP that calls is one of %d, want 4: its share must not be larger than before", h.holders)
		}
	}
	for rule, whole := range unitRules {
		if g := h.ask(p, units(rule, "never used", whole))[0]; g.Granted != whole {
			t.Errorf("%s: a key that was never used: %+v, want %d", rule, g, whole)
		}
		if g := h.ask(p, back(rule))[0]; g.Remaining != before[rule]+1 {
			t.Errorf("%s: a unit of before came back: %d left, want %d", rule, g.Remaining, before[rule]+1)
		}
	}
	if g := (&holder{t: t, name: 'b'}).ask(p, slots)[0]; g.Status != lease.Denied {
		t.Errorf("3 more of 5 slots, of which 3 are in use: %+v", g)
	}
}

// saves is how often the counters were saved, as the metrics have it.
func (p *process) saves() string {
	p.t.Helper()
	_, metrics := p.Probe("/metrics")
	_, rest, found := strings.Cut(metrics, "\nweir_state_saves_total ")
	if !found {
		p.t.Fatal("no weir_state_saves_total")
	}
	count, _, _ := strings.Cut(rest, "\n")
	return count
}

// A region that is killed has what it saved last, and whole limits for keys that nobody used.
func TestKilledRegion(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	p := restarted(t, state, "--state-interval", "100ms")
	h := &holder{t: t, name: 'a'}
	for rule := range unitRules {
		h.ask(p, units(rule, "k", 6))
	}
	before := h.left(p, "k")
	for range 2 { // the second save begins after the first, and so has all of before
		saved := p.saves()
		h.ask(p, units("fixed", "another", 1))
		for p.saves() == saved {
			time.Sleep(10 * time.Millisecond)
		}
	}
	p.Kill()
	p = restarted(t, state)
	if after := h.left(p, "k"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("left when it was saved %v, after that %v", before, after)
	}
	for rule, whole := range unitRules {
		if g := h.ask(p, units(rule, "never used", whole))[0]; g.Granted != whole {
			t.Errorf("%s: a key that was never used: %+v, want %d", rule, g, whole)
		}
	}
}

// Two processes never use one file: the second refuses to start, and names the first.
func TestStateFileInUse(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	first := restarted(t, state)
	h := &holder{t: t, name: 'a'}
	h.ask(first, units("fixed", "k", 6))
	rules := proc.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"), restartRules)
	out, err := exec.Command(region.Program(t), "--rules", rules, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--state", state).CombinedOutput()
	for _, want := range []string{fmt.Sprintf("state: %s is in use by process %d", state, first.PID()), "--state off"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, want %s in %s", err, want, out)
		}
	}
	first.Stop()
	if left := (&holder{t: t, name: 'b'}).left(restarted(t, state), "k")["fixed"]; left != 4 {
		t.Errorf("%d left of 10 after the first ended, want 4", left)
	}
}

// Whatever is under the name, the region starts, logs it, and replaces it in the end.
func TestUnusableStateFile(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	fatal.If(t, os.WriteFile(state, []byte("rules: []\n# a file of another kind"), 0o600))
	p := restarted(t, state)
	if line := p.waitFor("the counters start at zero"); !strings.Contains(line, "no state file of weir-regional") {
		t.Errorf("%s; want what is wrong in it", line)
	}
	(&holder{t: t, name: 'a'}).ask(p, units("fixed", "k", 6))
	p.Stop()
	if left := (&holder{t: t, name: 'b'}).left(restarted(t, state), "k")["fixed"]; left != 4 {
		t.Errorf("%d left of 10 after a restart with the file that replaced it, want 4", left)
	}
	p = restarted(t, "/proc/nowhere/state") // a directory that nobody can make
	p.waitFor("the counters end with this process")
	if code, body := p.Probe("/readyz"); code != 200 {
		t.Errorf("/readyz without a place to save: %d %s", code, body)
	}
}

// A disk that takes nothing is logged once, and limits go on; so is the first save after it.
func TestSavingFails(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	p := restarted(t, state, "--state-interval", "100ms")
	if err := os.Mkdir(state+".new", 0o700); err != nil { // where the next save would be written
		t.Fatal(err)
	}
	h := &holder{t: t, name: 'a'}
	h.ask(p, units("fixed", "k", 6))
	p.waitFor("cannot save the counters")
	if _, metrics := p.Probe("/metrics"); !strings.Contains(metrics, "weir_state_ok 0") {
		t.Error("weir_state_ok is not 0")
	}
	time.Sleep(300 * time.Millisecond)
	if g := h.ask(p, units("fixed", "k", 4))[0]; g.Granted != 4 {
		t.Errorf("while nothing can be saved: %+v", g)
	}
	fatal.If(t, os.Remove(state+".new"))
	p.waitFor("counters are saved again")
	p.Stop()
	if n := strings.Count(p.Log(), "cannot save"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if left := h.left(restarted(t, state), "k")["fixed"]; left != 0 {
		t.Errorf("%d left of 10 after it, want 0", left)
	}
}
