package filter

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// crossings are what goes between Envoy and the filter: callbacks, calls of the host, and bytes of their arguments and results.
type crossings struct {
	callbacks, calls counts
	in, out          int
	panics           string // the next call of that name panics
}

// crosses notes a call of the host that takes so many bytes in and out.
func (c *crossings) crosses(name string, in, out int) {
	if c.panics == name {
		c.panics = ""
		panic("the host panics")
	}
	c.calls.add(name)
	c.in, c.out = c.in+in, c.out+out
}

// counts are names and how often each was seen, in the order in which they were first seen.
type counts []count

type count struct {
	name string
	n    int
}

func (c *counts) add(name string) {
	for i := range *c {
		if (*c)[i].name == name {
			(*c)[i].n++
			return
		}
	}
	*c = append(*c, count{name, 1})
}

func (c counts) String() string {
	var parts []string
	for _, one := range c {
		part := one.name
		if one.n > 1 {
			part += fmt.Sprintf(" (%d)", one.n)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// The rules of the table of crossings: a path for each case.
const touchedRules = `{"rules":[
	{"name":"one","match":{"path":{"prefix":"/one/"}},"key":[{"header":"x-user-id"}],"limit":"1000000/1h","algorithm":"token_bucket"},
	{"name":"user","match":{"path":{"prefix":"/three/"}},"key":[{"header":"x-user-id"}],"limit":"1000000/1h","algorithm":"token_bucket"},
	{"name":"address","match":{"path":{"prefix":"/three/"}},"key":["client_ip"],"limit":"1000000/1h","algorithm":"token_bucket"},
	{"name":"total","match":{"path":{"prefix":"/three/"}},"key":[{"const":"total"}],"limit":"1000000/1h","algorithm":"token_bucket"},
	{"name":"spent","match":{"path":{"prefix":"/spent/"}},"key":[{"header":"x-user-id"}],"limit":"1/1d","algorithm":"fixed_window"},
	{"name":"pop","match":{"path":{"prefix":"/pop/"}},"key":[{"header":"x-user-id"}],"limit":"1000000/1h","algorithm":"token_bucket","scope":"pop"},
	{"name":"pop-spent","match":{"path":{"prefix":"/pop-spent/"}},"key":[{"header":"x-user-id"}],"limit":"1/1d","algorithm":"fixed_window","scope":"pop"},
	{"name":"claim","match":{"path":{"prefix":"/claim/"}},"key":[{"claim":"realm.id"},"san"],"limit":"1000000/1h","algorithm":"token_bucket"},
	{"name":"overload","match":{"path":{"prefix":"/shed/"}},"key":[{"header":"x-user-id"}],"shed":{"capacity":1000,
		"classes":[{"class":"bulk","match":{"path":"/shed/export"}}]}}
]}`

// touched is a case of the table of crossings.
type touched struct {
	name, path string
	region     func(*httpCall) // how it answers
	before     int             // requests of the key before the one that is counted
	status     int             // of a local reply
	others     int             // keys of the rule that were asked for before that
	warm       bool            // it must allocate nothing
}

var (
	plenty = grantsOf(lease.Grant{Status: lease.OK, Granted: 1 << 20, TTL: 3_600_000, Limit: 1_000_000, Remaining: 1_000, Reset: 3_600_000})
	none   = grantsOf(lease.Grant{Status: lease.Denied, Limit: 1, RetryAfter: 30_500, AskAfter: 1000, Reset: 30_500})
)

var touchedCases = []touched{
	{name: "no rule matches", path: "/none/", before: 10, warm: true},
	{name: "admitted by one rule, a hot key", path: "/one/", region: plenty, before: 200, warm: true},
	{name: "the same, not hot", path: "/one/", region: plenty, before: 2, warm: true},
	{name: "the same, 20 keys on its page", path: "/one/", region: plenty, before: 2, others: 400, warm: true},
	{name: "admitted by three rules, hot keys", path: "/three/", region: plenty, before: 200, warm: true},
	{name: "admitted, scope: pop", path: "/pop/", before: 10, warm: true},
	{name: "admitted by a shed rule", path: "/shed/", before: 10, warm: true},
	{name: "rejected from memory", path: "/spent/", region: none, before: 10, status: 429, others: 1, warm: true},
	{name: "rejected by the table", path: "/spent/", region: none, before: 1, status: 429, others: 1},
	{name: "rejected from memory, scope: pop", path: "/pop-spent/", before: 10, status: 429, others: 1, warm: true},
	{name: "first of a key", path: "/one/", region: plenty, others: 1},
}

// reach brings an Envoy to the state in which a case begins.
func (c *touched) reach(e *envoy) {
	for i := range 2 * c.others { // the second denial of a key makes the cache of denials
		e.complete(c.ask(e, fmt.Sprintf("other-%03d", i/2)))
	}
	for range c.before {
		e.complete(c.ask(e, "user-001"))
	}
}

// ask sends a request as an API client behind Envoy does, with 9 headers, and lets the region answer.
func (c *touched) ask(e *envoy, user string) *exchange {
	x := e.send(0, ":authority", "api.example.com", ":path", c.path+"thing", ":method", "GET", ":scheme", "http",
		"user-agent", "weir-load/1", "accept", "application/json", "x-user-id", user,
		"x-forwarded-proto", "http", "x-request-id", "5f0c954e-6f1a-4b0e-8a55-9e3a5c0f3a11")
	e.settle(c.region)
	return x
}

// testdata/touched.md has the table that is counted here. If the filter changes, the table that this test prints replaces it.
func TestTouched(t *testing.T) {
	counted := "| | callbacks | host calls | bytes in | bytes out |\n| - | - | - | - | - |\n"
	for _, c := range touchedCases {
		e := startNew(t, withRules(t, touchedRules), 1)
		c.reach(e)
		e.crossed = crossings{}
		x := c.ask(e, "user-001")
		e.complete(x)
		if x.status != c.status {
			t.Errorf("%s: status %d", c.name, x.status)
		}
		counted += fmt.Sprintf("| %s | %v | %v | %d | %d |\n", c.name, e.crossed.callbacks, e.crossed.calls, e.crossed.in, e.crossed.out)
	}
	page := fatal.Get(os.ReadFile("testdata/touched.md"))(t)
	if !strings.HasSuffix(string(page), "\n\n"+counted) {
		t.Errorf("testdata/touched.md has another table than this:\n%s", counted)
	}
}

// quiet is a host that allocates nothing, so that what is counted is the filter's.
type quiet struct{ nativeHost }

func startQuiet(e *envoy) *VM { return NewVM(&quiet{nativeHost{e, len(e.vms) - 1}}, nil) }

func (q *quiet) AddResponseHeader(string, string)         {}
func (q *quiet) ReplaceResponseHeader(string, string)     {}
func (q *quiet) SetState(string, string)                  {}
func (q *quiet) Respond(int, string, []byte, []byte, int) {}

// A warm request leaves no garbage, also while somebody watches.
func TestAllocatesNothing(t *testing.T) {
	claim := touched{name: "admitted by a claim and a certificate", path: "/claim/", region: plenty, before: 200, warm: true}
	for _, c := range append(touchedCases, claim) {
		for _, watched := range []bool{false, true} {
			if !c.warm {
				continue
			}
			e := newEnvoy(t, startQuiet, withRules(t, touchedRules), 1)
			e.known[jwtAuthnData+"payload\x00realm\x00id"], e.known[URISAN] = double(1<<50), "spiffe://example/one"
			c.reach(e)
			if watched {
				v := &viewer{t: t, grants: c.region}
				if v.grants == nil {
					v.grants = grantAll
				}
				e.send(0, ":path", "/one/thing", "x-user-id", "watched")
				e.settle(v.serve)
				if v.passes(e, 2); len(v.reports) < 2 {
					t.Fatalf("%d reports", len(v.reports))
				}
			}
			e.asked = []string{}
			x, m := c.ask(e, "user-001"), e.vms[0]
			if c.path == claim.path && len(e.asked) < 2 {
				t.Errorf("%s: asks for %q alone", c.name, e.asked)
			}
			e.asked = nil
			e.current, e.fetched = x.id, encodeMap(x.request)
			if n := testing.AllocsPerRun(1000, func() {
				m.RequestHeaders(x.id)
				m.ResponseHeaders(x.id, false)
				m.Deleted(x.id)
			}); n != 0 {
				t.Errorf("%s, watched %v: %v allocations", c.name, watched, n)
			}
		}
	}
}
