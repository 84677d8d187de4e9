package replay

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func suggest(t testing.TB, log string, c Config, aim Aim) []Suggestion {
	t.Helper()
	return fatal.Get(Suggest(strings.NewReader(log), c, aim))(t)
}

// try replays a log with the limit that is suggested for the only rule.
func try(t testing.TB, log string, c Config, s *Suggestion) Rule {
	t.Helper()
	with := *c.Rules.Rule(0)
	with.Limits = []rule.Variant{{Limit: s.spec}}
	c.Rules = rule.NewSet([]rule.Rule{with}, nil, 0)
	return run(t, log, c).Rules[0]
}

// Of 1,000 clients 998 come 12 times in a minute, one 37 times and one 200 times; one comes 3 times and does not count.
func TestSuggest(t *testing.T) {
	var l log
	for client := range 1001 {
		n := map[int]int{0: 3, 1: 37, 2: 200}[client]
		if n == 0 {
			n = 12
		}
		for i := range n {
			l.add(time.Duration(i)*250*time.Millisecond, fmt.Sprint("10.0.", client/250, ".", client%250), "/login", "")
		}
	}
	c := Config{Rules: rules(t, loginRules)}
	for share, want := range map[float64]int64{0.998: 12, 0.999: 37, 1: 200} {
		s := suggest(t, l.String(), c, Aim{Share: share, Least: 10})[0]
		if s.Keys != 1000 || s.Largest != 200 || s.Limit != fmt.Sprintf("%d/1m", want) || s.Note != "" {
			t.Errorf("%v: %+v, want %d", share, s, want)
		}
		denied := map[int64]int64{12: 25 + 188, 37: 163, 200: 0}[want]
		if r := try(t, l.String(), c, &s); r.Denied != denied || r.Keys != 1001 {
			t.Errorf("with %s: %+v, want %d denied", s.Limit, r, denied)
		}
	}
	if s := suggest(t, l.String(), c, Aim{Share: 1, Least: 30})[0]; s.Keys != 2 || s.Note != "few keys: 2" {
		t.Errorf("%+v", s)
	}
	if s := suggest(t, l.String(), c, Aim{Share: 1, Least: 300})[0]; s.Limit != "" || s.Note != "no key reaches --least (300)" {
		t.Errorf("%+v", s)
	}
}

// specs are the limits of the tests below.
var specs = []string{
	"limit: 5/1m, algorithm: fixed_window", "limit: 5/1m, algorithm: sliding_window", "limit: 5/1m, algorithm: sliding_log",
	"limit: 5/1m, algorithm: token_bucket", "limit: { count: 5, per: 10s, burst: 50 }, algorithm: token_bucket",
	"limit: { count: 60, per: 1m, burst: 5 }, algorithm: token_bucket", "limit: 5/1m, algorithm: fixed_window, align: first_request",
	"limit: 5, algorithm: concurrency",
}

// random is a log in which clients come in bursts.
func random(seed uint64, clients, requests int) string {
	random := rand.New(rand.NewPCG(seed, 2))
	var l log
	for at := time.Duration(0); requests > 0; requests-- {
		if at += time.Duration(random.IntN(100)) * time.Millisecond; random.IntN(100) == 0 {
			at += time.Duration(random.IntN(60)) * time.Second
		}
		client := random.IntN(random.IntN(clients) + 1)
		l.add(at, fmt.Sprint("10.0.0.", client), "/", fmt.Sprintf(`,"duration":%d`, random.IntN(20_000)))
	}
	return l.String()
}

// A suggested limit leaves the share of the keys untouched, whatever the algorithm and the consistency.
func TestSuggestionHolds(t *testing.T) {
	for seed, text := range specs {
		for _, consistency := range []string{"exact", "leased"} {
			if strings.Contains(text, "concurrency") {
				consistency = "exact"
			}
			c := Config{Rules: rules(t, "rules: [{ name: a, key: [client_ip], consistency: "+consistency+", "+text+" }]")}
			for _, share := range []float64{0.8, 1} {
				log := random(uint64(seed), 30, 800)
				s := suggest(t, log, c, Aim{Share: share, Least: 1})[0]
				if r := try(t, log, c, &s); s.Keys < 20 || float64(r.KeysDenied) > (1.0001-share)*float64(r.Keys) {
					t.Errorf("%s %s: %v of keys: %s rejects %+v", consistency, text, share, s.Limit, r)
				}
			}
		}
	}
}

// A peak is the least count of a limit that rejects nothing, or somewhat more where spans are summed up in steps.
func TestPeak(t *testing.T) {
	for seed, text := range slices.Repeat(specs[:7], 30) {
		l := rules(t, "rules: [{ name: a, key: [client_ip], "+text+" }]").Limit(0, 0)
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		var p peak
		var at []limit.Micros
		now := 20_000 * limit.Day
		for range 200 {
			now += limit.Micros(random.ExpFloat64() * float64(random.IntN(10)) * float64(limit.Second))
			at = append(at, now)
			p.add(l, now, 0, 1)
		}
		rejects := func(units int64) bool {
			spec := l.Spec()
			if spec.Count = units; spec.Burst > 0 {
				// a bucket of this burst that fills in the same time, in finer units
				spec.Count, spec.Burst, spec.Period = units, units, spec.Period*limit.Micros(l.Spec().Burst)/limit.Micros(l.Spec().Count)
			}
			of := fatal.Get(limit.New(spec))(t)
			var state limit.State
			for _, now := range at {
				var d limit.Decision
				if state, d = of.Acquire(state, now, limit.Ask{Need: 1, Waiting: 1, Want: 1}); d.Granted == 0 {
					return true
				}
			}
			return false
		}
		least := p.most - 1
		switch l.Spec().Algorithm {
		case limit.SlidingLog:
			least = p.most - 1 - p.most/10
		case limit.TokenBucket:
			least = p.most/2 - 1
		}
		if rejects(p.most) || !rejects(least) {
			t.Errorf("%s: %d rejects: %v; %d rejects: %v", text, p.most, rejects(p.most), least, rejects(least))
		}
	}
}

// Far more keys than there is room for: memory is bounded, what was not decided is said, and a replay is the same again.
func TestManyKeys(t *testing.T) {
	var l log
	for n := range 10_000 {
		l.add(time.Duration(n)*time.Millisecond, fmt.Sprintf("10.%d.%d.%d", n%3, n/256%256, n%256), "/login", "")
	}
	c := Config{Rules: rules(t, strings.Replace(loginRules, "1m", "1d", 1)), MaxKeys: 1000}
	r := run(t, l.String(), c)
	if of := r.Rules[0]; r.Uncounted < 7000 || of.Keys < 9000 || of.Keys > 11_000 || of.Matched != 10_000 {
		t.Errorf("%d uncounted, %+v", r.Uncounted, of)
	}
	if again := run(t, l.String(), c); !reflect.DeepEqual(again, r) {
		t.Errorf("%+v, then %+v", r, again)
	}
}

func TestRounded(t *testing.T) {
	for n, want := range map[float64]int64{0: 0, 7: 7, 99: 99, 100: 100, 101: 110, 1000: 1000, 1234: 1300, 9901: 10_000} {
		if got := rounded(n); got != want {
			t.Errorf("%v: %d, want %d", n, got, want)
		}
	}
}
