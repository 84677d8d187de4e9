package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// report is a public report of another product, as rules and the steps of a test in virtual time. The steps have what is
// right by the report.
type report struct {
	number int    // as in the package comment
	source string // repository and issue
	rules  string
	test   string // its fields but the name
}

// one is the request of most tests.
const one = "request: { url: /, client: 192.0.2.1 }\nsteps:\n"

var reports = []report{
	// An address is the client's, in whatever form a proxy has written it, and never one that is none.
	{8, "xagent#1185, #1224, envoy#25517", "- { name: b, key: [{ client_ip: { trusted_hops: 2 } }], limit: 1/1h, algorithm: fixed_window, consistency: exact }", forwarded},

	// A key that cannot be built takes its own rule out, and no other one.
	{9, "curiefense#654", missing + first, "request: { url: / }\nsteps: [{ expect: allowed }, { expect: { denied: b } }]"},
	{9, "curiefense#654", first + missing, "request: { url: / }\nsteps: [{ expect: allowed }, { expect: { denied: b } }]"},
	{9, "curiefense#654", slots + first, "request: { url: / }\nsteps: [{ expect: allowed }, { expect: { denied: b } }]"},
	{9, "curiefense#654", shadowed + first, "request: { url: / }\nsteps: [{ expect: allowed }, { expect: { denied: b } }]"},

	// A cookie is found wherever it stands.
	{10, "tempesta#1396, yarp#437", "- { name: c, key: [{ cookie: sid }], limit: 1/1m, algorithm: fixed_window, consistency: exact }", `steps:
  - { request: { url: /, headers: { cookie: "sid=x; a=1" } }, expect: { allowed: c, key: x } }
  - { request: { url: /, headers: { cookie: "a=1; sid=x; b=2" } }, expect: { denied: c, key: x } }
  - { request: { url: /, headers: { cookie: "a=1; sid=x" } }, expect: { denied: c, key: x } }
  - { request: { url: /, headers: { cookie: "a=1; xsid=x; sid=y" } }, expect: { allowed: c, key: y } }`},

	// One rule that cannot be decided does not speak for another one.
	{14, "wasm-shim#149", open + closed, "pops: { p: eu }\n" + one + "- { fault: region eu away }\n- { at: 1s, expect: { denied: closed, status: 503, failed: true } }"},
	{14, "wasm-shim#149", closed + open, "pops: { p: eu }\n" + one + "- { fault: region eu away }\n- { at: 1s, expect: { denied: closed, status: 503, failed: true } }"},

	// A cost of the whole limit passes once.
	{19, "redis#14826, talon#551", cost("algorithm: token_bucket"), costs},
	{19, "redis#14826, talon#551", cost("algorithm: fixed_window"), costs},
	{19, "redis#14826, talon#551", cost("algorithm: sliding_window"), costs},
	{19, "redis#14826, talon#551", cost("algorithm: sliding_log"), costs},

	whole("fixed_window", "10s"),
	whole("sliding_log", "10s"),
	whole("token_bucket", "10s"),
	whole("sliding_window", "20s"), // its whole cost has to leave the rolling window

	// Who comes when Retry-After says so is not refused again, and does not wait a second too long.
	obeys("sliding_window", "3/10s", 3, "14s"), // 10 s, and a third of the next window
	obeys("token_bucket", "3/10s", 3, "4s"),    // a token each 3.3 s
	obeys("sliding_window", "5/1s", 5, "2s"),
	obeys("fixed_window", "7/1m", 7, "60s"),
	obeys("sliding_log", "7/1m", 7, "60s"),
	obeys("sliding_window", "7/1m", 7, "69s"), // 60 s, and a seventh of the next window: 8.6 s
	obeys("token_bucket", "7/1m", 7, "9s"),    // a token each 8.6 s

	// A bucket that nobody used for long is full, and no fuller.
	{21, "bucket4j#51", "- { name: b, key: [], limit: { count: 1000000000, per: 1d, burst: 50000 }, algorithm: token_bucket, consistency: exact }",
		one + `- { expect: { allowed: b, remaining: 49999 } }
- { at: 12h, expect: { allowed: b, remaining: 49999 } }
- { at: 30d, expect: { allowed: b, remaining: 49999 } }`},

	// A steady client gets the burst and the rate: 3 + 3 × 59.9, rounded down.
	{22, "gubernator#118", "- { name: b, key: [], limit: 3/1s, algorithm: token_bucket, consistency: exact }",
		one + "- { repeat: every 100ms for 1m, expect: { count: { allowed: 182, denied: 418 } } }"},
	{22, "gubernator#118", "- { name: b, key: [], limit: 3/1s, algorithm: token_bucket, consistency: leased }",
		one + "- { repeat: every 100ms for 1m, expect: { count: { allowed: 182, denied: 418 } } }"},

	// A day and a month end when the calendar says so, once.
	{24, "aiproxy#640, ratelimit#1206", day("Europe/Berlin"), // 23 hours
		"start: 2026-03-28T23:00:00Z\n" + one + days("23h", 82_800)},
	{24, "aiproxy#640, ratelimit#1206", day("Europe/Berlin"), // 25 hours
		"start: 2026-10-24T22:00:00Z\n" + one + days("25h", 90_000)},
	{24, "aiproxy#640, ratelimit#1206", day("Australia/Lord_Howe"), // its summer time is half an hour
		"start: 2026-04-04T13:00:00Z\n" + one + days("24h30m", 88_200)},
	{24, "aiproxy#640, ratelimit#1206", day("America/Havana"), // its summer begins at midnight: the day begins at 1:00
		"start: 2026-03-08T05:00:00Z\n" + one + days("23h", 82_800)},
	{24, "aiproxy#640, ratelimit#1206", "- { name: m, key: [], limit: { count: 2, per: month, anchor: 31 }, consistency: exact }",
		"start: 2028-01-31T00:00:00Z\n" + one + days("29d", 29*86_400)}, // until 29 February of a leap year
	{24, "aiproxy#640, ratelimit#1206", "- { name: m, key: [], limit: { count: 2, per: month, anchor: 31 }, consistency: exact }",
		"start: 2026-01-31T00:00:00Z\n" + one + days("28d", 28*86_400)},

	// Of what a rejection states Retry-After is no earlier than the t of r=0.
	waits("fixed_window", "10s"),
	waits("sliding_log", "10s"),
	waits("token_bucket", "4s"),

	// A rule that refuses nothing ends nothing.
	{29, "envoy#46390", shadow + enforced, ten},
	{29, "envoy#46390", enforced + shadow, ten},
	{29, "envoy#46390", percent + enforced, ten},
	{29, "envoy#46390", enforced + percent, ten},
	{29, "envoy#46390", enforced + "candidates: [{ rule: b, limit: 1/1m, until: '2027-01-01T00:00:00Z' }]", ten},

	// All items of a list count, and all conditions under not.
	{39, "gateway#10025", "- { name: b, match: { client_ip: [10.0.0.0/8, 192.0.2.0/24] }, key: [client_ip], limit: 1/1h, algorithm: fixed_window, consistency: exact }", `steps:
  - { request: { url: /, client: 10.9.9.9 }, expect: { allowed: b } }
  - { request: { url: /, client: 192.0.2.9 }, expect: { allowed: b } }
  - { request: { url: /, client: 198.51.100.9 }, expect: { allowed: none } }`},
	{39, "gateway#10025", "- { name: b, match: { not: [{ client_ip: 10.0.0.0/8 }, { client_ip: 192.0.2.0/24 }] }, key: [client_ip], limit: 1/1h, algorithm: fixed_window, consistency: exact }", `steps:
  - { request: { url: /, client: 10.9.9.9 }, expect: { allowed: none } }
  - { request: { url: /, client: 192.0.2.9 }, expect: { allowed: none } }
  - { request: { url: /, client: 198.51.100.9 }, expect: { allowed: b } }`},
	{39, "gateway#10025", "- { name: b, match: { not: [{ header: { x-a: '1', x-b: '2' } }] }, key: [], limit: 1000/1h, algorithm: fixed_window, consistency: exact }", `steps:
  - { request: { url: /, headers: { x-a: "1", x-b: "2" } }, expect: { allowed: none } }
  - { request: { url: /, headers: { x-a: "1" } }, expect: { allowed: b } }
  - { request: { url: /, headers: { x-b: "2" } }, expect: { allowed: b } }`},
	{39, "gateway#10025", `- name: b
  key: [{ header: x-u }]
  limit: 1/1h
  algorithm: fixed_window
  consistency: exact
  overrides: [{ name: first, when: { header: { x-t: gold } }, limit: 2/1h }, { name: second, when: { header: { x-t: { present: true } } }, limit: 3/1h }]`, `steps:
  - { request: { url: /, headers: { x-u: a, x-t: gold } }, expect: { allowed: b, override: first, remaining: 1 } }
  - { request: { url: /, headers: { x-u: b, x-t: silver } }, expect: { allowed: b, override: second, remaining: 2 } }
  - { request: { url: /, headers: { x-u: c } }, expect: { allowed: b, override: null, remaining: 0 } }`},
}

const (
	missing  = "- { name: a, key: [{ header: x-missing }], limit: 100/1m }\n"
	slots    = "- { name: a, key: [{ header: x-missing }], limit: 9, algorithm: concurrency }\n"
	shadowed = "- { name: a, key: [{ header: x-missing }], limit: 100/1m, mode: shadow }\n"
	first    = "- { name: b, key: [], limit: 1/1m, algorithm: fixed_window, consistency: exact }\n"

	open   = "- { name: open, key: [], limit: 9/1m, on_failure: allow }\n"
	closed = "- { name: closed, key: [], limit: 9/1m, on_failure: deny }\n"

	shadow   = "- { name: a, mode: shadow, key: [], limit: 1/1m, algorithm: fixed_window, consistency: exact }\n"
	percent  = "- { name: a, percent: 1, key: [client_ip], limit: 1/1m, algorithm: fixed_window, consistency: exact }\n"
	enforced = "- { name: b, key: [], limit: 3/1m, algorithm: fixed_window, consistency: exact }\n"
	ten      = one + "- { repeat: 10x, expect: { count: { allowed: 3, denied: 7 } } }"
)

// cost is a rule of 10 units each 10 s whose requests state what they cost.
func cost(how string) string {
	return "- { name: b, key: [{ header: x-u }], limit: 10/10s, " + how + ", consistency: exact, cost: { header: x-cost, default: 1, max: 10 } }"
}

// costs are requests of that rule, each key with a full limit.
var costs = func() string {
	var steps strings.Builder
	steps.WriteString("steps:\n")
	send := func(key, cost, expect string) {
		fmt.Fprintf(&steps, "- { request: { url: /, headers: { x-u: %s, x-cost: %q } }, expect: %s }\n", key, cost, expect)
	}
	send("nine", "9", "{ allowed: b, remaining: 1 }")
	send("ten", "10", "{ allowed: b, remaining: 0 }")
	send("ten", "10", "{ denied: b, status: 429 }")
	// Not as the report has it: what is no number costs max, as the reference of cost.header states.
	for i, junk := range []string{"-1", "4294967296", "9007199254740993", "9223372036854775808", "1e3", "5.0", "x"} {
		send(fmt.Sprint("junk", i), junk, "{ allowed: b, remaining: 0 }")
	}
	send("list", "5,5", "{ allowed: b, remaining: 5 }") // the larger one of two
	send("zero", "0", "{ allowed: b, remaining: 9 }")
	send("none", "", "{ allowed: b, remaining: 9 }")
	return steps.String()
}()

// whole is a client of that rule whose requests cost the whole limit: the wait is finite, and then one passes.
func whole(algorithm, wait string) report {
	return report{
		19, "redis#14826, talon#551", cost("algorithm: " + algorithm),
		"request: { url: /, headers: { x-u: whole, x-cost: '10' } }\nsteps:\n" +
			fmt.Sprintf("- { expect: allowed }\n- { expect: { denied: b, retry_after: %s } }\n- { at: %s, expect: allowed }\n", wait, plusStep(wait)),
	}
}

// forwarded are requests through two proxies, and the key of each.
var forwarded = func() string {
	var steps strings.Builder
	steps.WriteString("steps:\n")
	for _, c := range [][2]string{
		{"1.2.3.4:5678, 10.0.0.1", "1.2.3.4"}, {"[2001:db8::1]:443, 10.0.0.1", "2001:db8::/64"}, {"fe80::1%" + strings.Repeat("A", 4000) + ", 10.0.0.1", "fe80::/64"},
		{"::ffff:1.2.3.5, 10.0.0.1", "1.2.3.5"}, {"6.6.6.6, 1.2.3.6, 10.0.0.1", "1.2.3.6"},
		{"unknown, 10.0.0.1", "192.0.2.9"},
	} {
		fmt.Fprintf(&steps, "- { request: { url: /, client: 192.0.2.9, headers: { x-forwarded-for: %q } }, expect: { allowed: b, key: %q } }\n", c[0], c[1])
	}
	return steps.String()
}()

// obeys is a client that uses up a limit and comes again when Retry-After says so.
func obeys(algorithm, limit string, count int, wait string) report {
	return report{
		20, "redis-gcra#3, redis-cell#56, tower-governor#65",
		fmt.Sprintf("- { name: b, key: [], limit: %s, algorithm: %s, consistency: exact }", limit, algorithm),
		"start: 2026-01-01T12:00:00Z\n" + one + fmt.Sprintf("- { repeat: %dx, expect: allowed }\n- { expect: { denied: b, retry_after: %s } }\n- { at: %s, expect: allowed }\n", count, wait, plusStep(wait)),
	}
}

// waits is a client that is told the same wait twice.
func waits(algorithm, wait string) report {
	return report{
		25, "ratelimit-headers#149, #160", "- { name: b, key: [], limit: 3/10s, algorithm: " + algorithm + ", consistency: exact }",
		fmt.Sprintf("%s- { repeat: 3x, expect: allowed }\n- { expect: { denied: b, retry_after: %s, headers: { ratelimit: '\"b\";r=0;t=%s' } } }", one, wait, strings.TrimSuffix(wait, "s")),
	}
}

// plusStep is a wait after the request that was refused, which is some ms after the start.
func plusStep(wait string) string { return wait + "100ms" }

// day is a rule of two requests a day of a zone.
func day(zone string) string {
	return "- { name: d, key: [], limit: { count: 2, per: day, zone: " + zone + " }, consistency: exact }"
}

// days are steps of a client that uses up a window at its begin and comes until it ends after so long, and in seconds.
func days(long string, seconds int) string {
	return fmt.Sprintf(`- { repeat: 2x, expect: allowed }
- { at: 1m, expect: { denied: any, retry_after: %ds } }
- { at: %ds, expect: { denied: any, retry_after: 60s } }
- { at: %s, repeat: 2x, expect: allowed }
- { expect: denied }`, seconds-60, seconds-60, long)
}

func TestReports(t *testing.T) {
	for i, r := range reports {
		t.Run(fmt.Sprintf("%d/%d", r.number, i), func(t *testing.T) {
			t.Parallel()
			text := "rules:\n" + indented(r.rules) + "tests:\n  - name: report\n" + indented(indented(r.test))
			text = strings.ReplaceAll(text, "  candidates:", "candidates:")
			text = strings.ReplaceAll(text, "{ denied: any, ", "{ denied: "+nameOf(r.rules)+", ")
			suite, err := ruletests.Read("rules.yaml", []rulefile.File{{Name: "rules.yaml", Data: []byte(text)}})
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			failure := fatal.Get(suite.Run(t.Context(), &suite.Tests[0], nil))(t)
			if failure != nil {
				t.Errorf("%s: step %d: got %v, want %v %s\n%s", r.source, failure.Step, failure.Got, failure.Expected, failure.Note, text)
			}
		})
	}
}

// A cost that no wait helps: the language refuses a rule in which a request may cost more than the limit.
func TestCostBeyondLimit(t *testing.T) {
	for _, how := range []string{"algorithm: token_bucket", "algorithm: fixed_window", "algorithm: sliding_window", "algorithm: sliding_log"} {
		text := "rules:\n" + indented(strings.Replace(cost(how), "max: 10", "max: 11", 1))
		if _, err := rulefile.Parse("rules.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "cost.max: 11 is more than limit ever admits") {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// nameOf is the name of the first rule.
func nameOf(rules string) string {
	_, name, _ := strings.Cut(rules, "name: ")
	name, _, _ = strings.Cut(name, ",")
	return name
}

// indented is a text two columns to the right.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
