package edge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/distinct"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
	"google.golang.org/protobuf/proto"
)

// watched has somebody watch, as the answers to reports say: with a tap, unless that is nil.
func (w *world) watched(tap *quotav1.Tap) {
	w.region.watch, w.region.shows = 5000, &quotav1.ReportResponse{Protocol: wire.Protocol, WatchMs: 5000, Tap: tap}
}

// reports are those that have come since the last call.
func (w *world) reports() []shown {
	all := w.region.reports
	w.region.reports = nil
	return all
}

// expectReports lets time pass and returns the reports that came meanwhile, which must be so many.
func (w *world) expectReports(what string, d lease.Millis, least, most int) []shown {
	w.t.Helper()
	w.passes(d)
	all := w.reports()
	if n := len(all); n < least || n > most {
		w.t.Fatalf("%s: %d reports, want %d to %d", what, n, least, most)
	}
	return all
}

// passes lets time pass as pass does, and answers all calls.
func (w *world) passes(d lease.Millis) {
	for ; d > 0; d -= 100 {
		w.pass(min(d, 100))
		w.settle()
	}
}

// last is the last report of each worker, in their order.
func (w *world) last() (reports []shown) {
	for _, x := range w.workers {
		for i := len(w.region.reports) - 1; i >= 0; i-- {
			if r := w.region.reports[i]; r.Worker == x.pop.Number {
				reports = append(reports, r)
				break
			}
		}
	}
	return reports
}

const shownRules = `{"rules":[
	{"name":"user","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],"limit":"20/1h","algorithm":"fixed_window",
		"overrides":[{"name":"gold","when":{"header":{"x-user":{"prefix":"gold"}}},"limit":"1000000/1h"},{"when":{"header":{"x-user":{"prefix":"iron"}}},"limit":"1000000/1h"}]},
	{"name":"trial","mode":"shadow","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],"limit":"5/1h","algorithm":"fixed_window"},
	{"name":"device","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-device"}],"limit":"5/1h","algorithm":"fixed_window"}]}`

// An answer to one worker begins a watch of all: each reports at once, and then once a second. The watch ends with the answer that
// says so, or when nothing says any more that somebody watches. Workers without requests report while somebody watches only.
func TestWatch(t *testing.T) {
	w := newWorld(t, 2, shownRules)
	expect := w.expectReports
	w.admit(0, "/v1/a", "ann")
	expect("nobody watches", 60_000, 1, 1)
	w.watched(nil)
	w.admit(0, "/v1/a", "bob")
	begin := w.wall()
	w.passes(500)
	if w.workers[1].uplink.Watch.Until == 0 {
		t.Error("a worker without requests does not know that somebody watches")
	}
	w.workers = w.workers[:1]
	if all := expect("somebody watches", 9500, 9, 12); all[0].at > begin+100*limit.Millisecond {
		t.Errorf("the first report comes %d µs after the answer", all[0].at-begin)
	}
	w.region.watch, w.region.shows = 0, &quotav1.ReportResponse{Protocol: wire.Protocol}
	expect("nobody watches any more", 10_000, 0, 2)
	w.watched(nil)
	expect("a worker without requests, which fetches rules", 8000, 2, 8)
}

// Reports that hang, and are lost then or answered with what cannot be read, cost no request anything: no breaker opens, none is
// repeated, and there is never more than one in flight.
func TestReportsDoNoHarm(t *testing.T) {
	w := newWorld(t, 1, shownRules)
	w.watched(nil)
	w.admit(0, "/v1/a", "gold")
	x := w.workers[0]
	over := 0
	for range 200 {
		w.pass(100)
		r, flying := w.request(0, "/v1/a", "gold"), 0
		for i := 0; i < len(w.calls); {
			switch c := w.calls[i]; {
			case c.call.Path != uplink.ReportPath:
				w.answer(i)
			case w.now < c.at+1500:
				i, flying = i+1, flying+1
			case over%2 == 0:
				w.lose(i, true)
				over++
			default:
				over++
				w.take(i).worker.Reply(w.now, c.call.ID, []byte{0xff})
			}
		}
		if r.Outcome != Admit || r.Degraded || flying > 1 {
			t.Fatalf("outcome %v, degraded %v, %d reports in flight", r.Outcome, r.Degraded, flying)
		}
		x.uplink.Watch.Until = w.now + 5000 // other answers say so
	}
	if e := x.Ended; over < 8 || e[uplink.CallTimedOut]+e[uplink.CallFailed]+e[uplink.CallMalformed] > 0 || x.AnswerError != "" || x.uplink.Degraded(w.now) != 0 {
		t.Errorf("%d reports, calls %v, %q", over, e, x.AnswerError)
	}
}

// What a report says of keys and rules is what was decided, by all workers. How close counts of many keys are is up to
// package topkeys.
func TestShowsWhatWasDecided(t *testing.T) {
	w := newWorld(t, 2, shownRules)
	w.watched(nil)
	for i := range w.workers {
		w.admit(i, "/none", "") // an answer tells it
		w.admit(i, "/v1/a", "first")
	}
	w.passes(1200)
	for user, n := range map[string]int{"gold-1": 10, "iron-1": 20, "tin-1": 30, "tin-2": 6} {
		for i := range n {
			w.admit(i%2, "/v1/a", user)
		}
	}
	w.passes(1000)
	rates, uses := map[string]uint64{}, map[string][3]uint64{}
	for _, r := range w.last() {
		for of, list := range map[string][]*quotav1.KeyRate{"": r.Keys, "rejected ": r.Denied} {
			for _, k := range list {
				if k.Rule == "user" {
					rates[fmt.Sprintf("%s%s %s", of, k.Override, k.Key)] += k.Count
				}
			}
		}
		for _, u := range r.Rules {
			sum := uses[u.Rule]
			uses[u.Rule] = [3]uint64{sum[0] + u.Matched, sum[1] + u.Denied + u.ShadowDenied, sum[2] + u.NoKey}
		}
	}
	want := map[string]uint64{"gold gold-1": 5334, "override-2 iron-1": 10_668, " tin-1": 16_000, "rejected  tin-1": 5334, " tin-2": 3200}
	if !maps.Equal(rates, want) {
		t.Errorf("rates %v, want %v: requests of 1.875 s, in thousandths a second", rates, want)
	}
	// The shadow rule decides on a request that waits, too, which another rule may then reject.
	if got := fmt.Sprint(uses); got != "map[device:[0 0 68] trial:[59 37 0] user:[68 10 0]]" {
		t.Errorf("matched, denied and without a key: %s", got)
	}
}

// A tap shows the decisions that it asks for, and of many those that chance picks, no more than it may have.
func TestTap(t *testing.T) {
	for _, c := range []struct {
		tap  *quotav1.Tap
		want map[string]bool // rule/override key outcome, of which each must be there, and nothing else
	}{
		{&quotav1.Tap{Rule: "user"}, map[string]bool{"user/ ann 1": true, "user/ ann 2": true, "user/gold gold 1": true}},
		{&quotav1.Tap{Rule: "use"}, nil},
		{&quotav1.Tap{Rule: "user", Key: []byte("ann")}, map[string]bool{"user/ ann 1": true, "user/ ann 2": true}},
		{&quotav1.Tap{Key: []byte("ann"), Outcome: quotav1.Outcome_OUTCOME_DENIED}, map[string]bool{"user/ ann 2": true}},
		{&quotav1.Tap{Outcome: quotav1.Outcome_OUTCOME_WOULD_DENY}, map[string]bool{"trial/ ann 4": true, "trial/ gold 4": true}},
		{&quotav1.Tap{Outcome: quotav1.Outcome_OUTCOME_UNAVAILABLE}, nil},
	} {
		w := newWorld(t, 1, shownRules)
		c.tap.PerSecond = 1000
		w.watched(c.tap)
		w.admit(0, "/v1/a", "warm")
		w.passes(200)
		w.reports()
		for i := range 30 {
			w.admit(0, "/v1/a", "ann")
			w.admit(0, "/v1/a", "gold")
			w.pass(lease.Millis(10 * (i % 2)))
		}
		w.passes(1500)
		seen := map[string]bool{}
		for _, r := range w.reports() {
			for _, d := range r.Decisions {
				seen[fmt.Sprintf("%s/%s %s %d", d.Rule, d.Override, d.Key, d.Outcome)] = true
				if denied := d.Outcome == quotav1.Outcome_OUTCOME_DENIED; d.AgeMs > 1200 || denied && (d.RetryAfterMs == 0 || d.Remaining > 0) || d.Outcome == quotav1.Outcome_OUTCOME_ADMITTED && d.RetryAfterMs > 0 {
					t.Errorf("%+v", d)
				}
			}
		}
		if fmt.Sprint(seen) != fmt.Sprint(c.want) {
			t.Errorf("%+v: %v, want %v", c.tap, seen, c.want)
		}
	}
}

// Of 2,000 decisions a second a tap of 100 shows 100, of the whole second, and every key as often as it came.
func TestTapSamples(t *testing.T) {
	w := newWorld(t, 1, strings.Replace(shownRules, "20/1h", "1000000/1h", 1))
	w.watched(&quotav1.Tap{Rule: "user", PerSecond: 100})
	w.admit(0, "/v1/a", "warm")
	w.passes(200)
	w.reports()
	early, first, all := 0, 0, 0
	for range 20 {
		for i := range 200 {
			for range 9 {
				w.admit(0, "/v1/a", "ann")
			}
			w.admit(0, "/v1/a", "bob")
			if w.pass(5); i%20 == 19 {
				w.settle()
			}
		}
	}
	for _, r := range w.reports() {
		if len(r.Decisions) > 100 {
			t.Fatalf("%d decisions", len(r.Decisions))
		}
		for _, d := range r.Decisions {
			if all++; d.AgeMs > 500 {
				early++
			}
			if string(d.Key) == "bob" {
				first++
			}
		}
	}
	if all < 1800 || early < all*2/5 || early > all*3/5 || first < all*6/100 || first > all*14/100 {
		t.Errorf("%d decisions, %d of the first half of a second, %d of a tenth of the requests", all, early, first)
	}
}

// What is admitted while the region does not answer shows as such, and the member as degraded.
func TestShowsFailures(t *testing.T) {
	w := newWorld(t, 1, shownRules)
	w.watched(&quotav1.Tap{Outcome: quotav1.Outcome_OUTCOME_UNAVAILABLE, PerSecond: 10})
	w.admit(0, "/v1/a", "ann")
	w.passes(1200)
	w.reports()
	for range 40 {
		w.request(0, "/v1/a", "bob")
		w.pass(100)
		w.answerThose(func(c madeCall) bool { return c.call.Path == uplink.ReportPath })
		w.cut(false)
	}
	w.workers[0].Problem(w.now-300, strings.Repeat("é", 101))
	w.pass(1000)
	w.settle()
	all := w.reports()
	m, n := all[len(all)-1].Members[0], 0
	for _, r := range all {
		n += len(r.Decisions)
	}
	if n == 0 || m.DegradedMs < 2000 || m.DegradedMs > 5500 || m.Error != strings.Repeat("é", 100) || m.ErrorAgeMs < 300 || m.ErrorAgeMs > 1300 {
		t.Errorf("%d decisions, %+v", n, m)
	}
	w.passes(2000)
	if all = w.reports(); all[len(all)-1].Members[0].DegradedMs != 0 {
		t.Errorf("the region answers: %+v", all[len(all)-1].Members)
	}
}

// A member says what it is and how it does. Of the workers only the leader has the places of the table.
func TestMember(t *testing.T) {
	w := newWorld(t, 0, shownRules)
	w.config.PoP, w.config.Region, w.region.share = "fra1", "eu", 250
	for range 2 {
		w.start()
	}
	w.watched(nil)
	for range 250 {
		for i := range 40 {
			w.admit(i%2, "/v1/a", fmt.Sprint("u", i/2))
		}
		w.passes(100)
	}
	places := uint64(0)
	for i, r := range w.last() {
		m, x := r.Members[0], w.workers[i]
		if places += m.Places; m.Places > 0 && (m.Keys < 20 || m.Keys > 60) {
			t.Errorf("%d keys in %d places", m.Keys, m.Places)
		}
		m.Keys, m.Places, m.AgeMs, m.RulesAgeMs = 0, 0, m.AgeMs/10_000, m.RulesAgeMs/10_000
		want := &quotav1.Member{Version: version.Version, RulesVersion: w.region.set.Version, AgeMs: 2, RulesAgeMs: 2, ReservePerMille: 250}
		if !proto.Equal(m, want) || string(r.Holder) != string(x.pop.Holder[:]) || r.Pop != "fra1" || r.Region != "eu" || r.Worker != x.pop.Number || len(r.Decisions) > 0 {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if places != 512 {
		t.Errorf("%d places in the reports of the workers together, want those of the table once", places)
	}
}

// Of a rule with hide_keys: true no key shows, and of one with hash: true no key in plain, whatever there is to hash with. A rule that
// is closed while somebody watches shows none of what was collected before.
func TestHideKeys(t *testing.T) {
	const rules = `{"rules":[
		{"name":"open","key":[{"header":"x-user"}],"limit":"30/1h","algorithm":"fixed_window"},
		{"name":"closed","key":[{"header":"x-user"}],"limit":"30/1h","algorithm":"fixed_window","hide_keys":true},
		{"name":"hashed","key":[{"header":"x-user"}],"hash":true,"limit":"30/1h","algorithm":"fixed_window","on_failure":"allow"}]}`
	w := newWorld(t, 1, rules)
	w.watched(&quotav1.Tap{PerSecond: 1000})
	shows := func() (seen string) {
		names := map[string]bool{}
		for _, r := range w.reports() {
			for _, k := range append(r.Keys, r.Denied...) {
				names[k.Rule+" "+string(k.Key[:min(2, len(k.Key))])] = true
			}
			for _, d := range r.Decisions {
				names[d.Rule+" "+string(d.Key[:min(2, len(d.Key))])] = true
			}
			for _, u := range r.Rules {
				names["counts "+u.Rule] = true
			}
		}
		return fmt.Sprint(slices.Sorted(maps.Keys(names)))
	}
	seconds := func(n int) {
		for range n {
			w.admit(0, "/", "ann")
			w.passes(1000)
		}
	}
	seconds(10)
	if got := shows(); got != "[counts closed counts hashed counts open open an]" {
		t.Errorf("without a secret: %s", got)
	}
	w.region.use(w.region.set, rule.Secret{1})
	seconds(10)
	if got := shows(); got != `[counts closed counts hashed counts open hashed \h open an]` {
		t.Errorf("with a secret: %s", got)
	}
	w.region.use(mustRules(t, strings.Replace(rules, `"algorithm":"fixed_window"}`, `"algorithm":"fixed_window","hide_keys":true}`, 1)).Dated(2))
	seconds(3)
	shows()
	w.passes(3000)
	if got := shows(); strings.Contains(got, "open an") {
		t.Errorf("after a rule was closed: %s", got)
	}
}

// With as many rules, keys and decisions as there may be, all of the longest names, a report is as long as it may be.
func TestReportFits(t *testing.T) {
	var rules []string
	for i := range 600 {
		name := fmt.Sprintf("%0128d-%d", i, i%10) // as expanded rules have it
		rules = append(rules, fmt.Sprintf(`{"name":"%s@%s@%s","match":{"path":"/%d"},"key":[{"header":"x-user"}],"limit":"1000000/1h","scope":"pop"}`, name[66:], strings.Repeat("s", 32), strings.Repeat("t", 32), i%150))
	}
	w := newWorld(t, 1, `{"rules":[`+strings.Join(rules, ",")+`]}`)
	w.watched(&quotav1.Tap{PerSecond: 1000})
	w.region.watch = 60_000
	w.passes(10_000)
	w.region.reports = nil
	for i := range 600 {
		w.admit(0, fmt.Sprint("/", i%150), strings.Repeat(fmt.Sprint(i%7), rule.MaxKey))
		if i%100 == 0 {
			w.passes(100)
		}
	}
	w.passes(2000)
	full := false
	for _, r := range w.reports() {
		full = full || len(r.Rules) == 600 && len(r.Keys) == 100 && len(r.Decisions) > 300 && len(r.Decisions) < 900
	}
	if !full {
		t.Error("no report has all that there is room for")
	}
}

// While nobody watches, a worker reports every 10 s if its rules decided anything, and once a minute the keys. A report that is lost
// comes again, and one request is reported whole.
func TestReportsForTheHistory(t *testing.T) {
	w := newWorld(t, 1, shownRules)
	expect := w.expectReports
	expect("no request", 300_000, 0, 0)
	w.admit(0, "/v1/a", "ann")
	all := expect("one request", 10_100, 1, 1)
	if u := all[0].Rules[0]; u.Rule != "user" || u.Matched != 1 || u.Admitted != 1 {
		t.Errorf("%v", u)
	}
	// After a request the keys of the minute come once, in this report or in one of their own.
	for _, r := range append(all, expect("later", 300_000, 0, 1)...) {
		for _, k := range r.Keys {
			if n := k.Count * uint64(r.KeysMs) / 1000; k.Rule == "user" && (string(k.Key) != "ann" || n < 950 || n > 1200) {
				t.Errorf("%v in %d ms", k, r.KeysMs)
			}
		}
	}
	w.region.lost = true
	w.admit(0, "/v1/a", "bob")
	expect("reports are lost", 60_000, 0, 0)
	w.region.lost = false
	if all := expect("the region answers again", 10_100, 1, 1); all[0].Rules[0].Matched != 2 {
		t.Errorf("%v", all[0].Rules)
	}
	expect("all is reported", 300_000, 0, 1)
}

// A busy worker counts keys for 20 s of each minute, which show how often each came.
func TestKeysForTheHistory(t *testing.T) {
	w := newWorld(t, 1, strings.Replace(shownRules, "20/1h", "1000000/1h", 1))
	counted, ticks, withKeys, minutes, stands := 0, 0, 0, 10, uint32(0)
	for range minutes * 600 {
		for range 9 {
			w.admit(0, "/v1/a", "ann")
		}
		w.admit(0, "/v1/a", "bob")
		w.passes(100)
		if ticks++; w.workers[0].live.View != nil {
			counted++
		}
	}
	all := w.reports()
	for _, r := range all[6:] {
		if len(r.Keys) == 0 {
			continue
		}
		withKeys++
		stands += r.KeysMs
		for _, k := range r.Keys {
			if want := map[string]uint64{"ann": 90_000, "bob": 10_000}[string(k.Key)]; k.Count < want*98/100 || k.Count > want*102/100 {
				t.Errorf("%v, want %d", k, want)
			}
		}
	}
	if n := len(all); n < 6*minutes-2 || n > 6*minutes || withKeys < minutes-3 || withKeys > minutes+1 {
		t.Errorf("%d reports, %d of them with keys, in %d minutes", n, withKeys, minutes)
	}
	if stands < 480_000 || stands > 600_000 {
		t.Errorf("the keys stand for %d ms of %d minutes", stands, minutes)
	}
	if counted > ticks*40/100 {
		t.Errorf("keys are counted for %d ticks of %d", counted, ticks)
	}
}

// A report has the keys that rules on trial would have rejected in this hour, of all workers and overrides. The next hour
// begins without them.
func TestTrialKeys(t *testing.T) {
	w := newWorld(t, 2, strings.Replace(shownRules, `"limit":"5/1h","algorithm":"fixed_window"},`, `"limit":"1/1h","algorithm":"fixed_window",
		"overrides":[{"name":"other","when":{"header":{"x-user":{"prefix":"other"}}},"limit":"1/1h"}]},`, 1))
	count := func(d lease.Millis) uint64 {
		var keys distinct.Keys
		w.passes(d)
		for _, r := range w.reports() {
			for _, trial := range r.Trials {
				if trial.Rule != "trial" || !keys.Merge(trial.Registers) {
					t.Errorf("keys of %q, %d registers", trial.Rule, len(trial.Registers))
				}
			}
		}
		return keys.Count()
	}
	for i := range 400 {
		user := fmt.Sprint("gold", i)
		if i >= 200 {
			user = fmt.Sprint("other", i)
		}
		for worker := range 3 {
			w.admit(worker%2, "/v1/a", user)
		}
		w.passes(10)
	}
	w.admit(0, "/v1/a", "never over")
	if n := count(120_000); n < 380 || n > 420 {
		t.Errorf("%d keys, want 400", n)
	}
	w.passes(3600_000)
	for range 2 {
		w.reports()
		for range 30 {
			for range 3 {
				w.admit(0, "/v1/a", "gold-late")
			}
			w.passes(3_000)
		}
	}
	if n := count(0); n != 1 {
		t.Errorf("%d keys in the next hour, want 1", n)
	}
}
