package filter

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

func double(n float64) string {
	return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(n)))
}

// What metadata is read as, by the bytes that Envoy 1.40 answers.
func TestMetadata(t *testing.T) {
	unreadable := rule.Value{Unreadable: true}
	here := func(text string) rule.Value { return rule.Value{Text: text, Present: true} }
	for _, c := range []struct {
		what, raw string
		want      rule.Value
	}{
		{"a string", "ann", here("ann")},
		{"an empty string", "", here("")},
		{"a string of 8 bytes", "john.doe", here("john.doe")},
		{"a string of 8 bytes, not ASCII", "grün|\\1", here("grün|\\1")},
		{"a string of one byte", "1", here("1")},
		{"a string of digits", "42", here("42")},
		{"a number", double(42), here("42")},
		{"zero", double(0), here("0")},
		{"zero with a sign", double(math.Copysign(0, -1)), here("0")},
		{"a negative number", double(-3), here("-3")},
		{"the largest number", double(1<<51 - 1), here("2251799813685247")},
		{"a number too large", double(1 << 51), unreadable},
		{"a number of 1e21", double(1e21), unreadable},
		{"a number that is not whole", double(1.5), unreadable},
		{"one whose bytes are a text", double(9.6), here("333333#@")},
		{"no number", double(math.NaN()), unreadable},
		{"infinite", double(math.Inf(-1)), unreadable},
		{"true", "\x01", here("true")},
		{"false", "\x00", here("false")},
		{"another byte", "\x02", unreadable},
		{"an empty list", "\x00\x00\x00\x00", unreadable},
		{"a list", "\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00r\x00\x00", unreadable},
		{"a struct", "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00x\x00y\x00", unreadable},
		{"a string with a line feed", "ann\nbob", unreadable},
		{"a string of 8 bytes with a line feed", "ann\nbob!", unreadable},
		{"no UTF-8", "ann\xff", unreadable},
	} {
		var f properties
		if got := f.read(c.raw); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// No whole number below the bound passes for a text, and none is read as another.
func FuzzWholeNumber(f *testing.F) {
	for bits := range 52 {
		f.Add(int64(1)<<bits - 1)
		f.Add(-int64(1) << bits)
		f.Add(int64(0x7e7e7e7e7e7e7e7e) >> bits)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		var p properties
		n %= maxWhole
		if got, want := p.read(double(float64(n))), strconv.FormatInt(n, 10); got.Text != want || !got.Present {
			t.Errorf("%d is read as %+v", n, got)
		}
	})
}

const knownRules = `{"rules":[
	{"name":"all","match":{"path":"/all","region":"eu","label":{"tier":"edge"},"claim":{"sub":"ann"}},"limit":"100/1m",
		"key":[{"claim":"sub"},{"claim":"realm.id"},{"claim":"https://example.com/team"},"san","route","client_ip","region",{"label":"tier"}]},
	{"name":"again","match":{"path":"/all","claim":{"sub":{"present":true}}},"key":[{"claim":"sub"},"route"],"limit":"100/1m"},
	{"name":"absent","match":{"path":"/absent","claim":{"sub":{"present":false}}},"limit":"100/1m",
		"key":[{"claim":"realm.id","else":{"claim":"sub","else":"san"}}]}
]}`

// What rules need beside headers is asked for once, when all else of the rule matches, and stays as it was while
// more is asked for.
func TestProperties(t *testing.T) {
	claim := func(path string) string { return jwtAuthnData + "claims\x00" + path }
	known := map[string]string{
		claim("sub"): "ann", claim("realm\x00id"): double(7), claim("https://example.com/team"): "weir",
		DNSSAN: "one.example", RouteName: "first", PeerAddress: "192.0.2.7:4711",
	}
	e := startNew(t, `{"region":"eu","labels":{"tier":"edge"},"jwt_payload":"claims",`+withRules(t, knownRules)[1:], 1)
	maps.Copy(e.known, known)
	key := func(path string) string {
		e.asked = []string{}
		return keyOf(e, path)
	}
	asked := func(path, want string) {
		t.Helper()
		if got := fmt.Sprintf("%q", e.asked); got != want {
			t.Errorf("%s: asked for %s, want %s", path, got, want)
		}
	}
	if got, want := key("/all"), "ann|7|weir|one.example|first|192.0.2.7|eu|edge ann|first"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	asked("/all", fmt.Sprintf("%q", []string{claim("sub"), claim("realm\x00id"), claim("https://example\x00com/team"),
		claim("https://example.com/team"), URISAN, DNSSAN, RouteName, PeerAddress}))
	if got := key("/none"); got != "" {
		t.Errorf("key %s for a request of no rule", got)
	}
	asked("/none", "[]")

	clear(e.known)
	e.known[URISAN] = "spiffe://example/one"
	if got, want := key("/absent"), `san spiffe://example/one`; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	asked("/absent", fmt.Sprintf("%q", []string{claim("sub"), claim("realm\x00id"), claim("realm.id"), URISAN}))
}

// keyOf sends a request, and returns the keys that the region is asked for.
func keyOf(e *envoy, path string) string {
	var keys []string
	x := e.send(0, ":path", path, ":method", "GET")
	e.settle(granting(func(w *wire.Want) lease.Grant {
		keys = append(keys, string(w.Key))
		return lease.Grant{Status: lease.OK, Granted: 1, TTL: 10_000, Limit: 100}
	}))
	e.complete(x)
	return strings.Join(keys, " ")
}

// A rule that looks at no header gets what else it needs, and one that ends applies until then: the clock is read
// every 100 ms. A PoP that states no region has none.
func TestWithoutHeaders(t *testing.T) {
	const rules = `{"rules":[{"name":"only","match":{"until":"2027-01-15T09:23:30Z"},"limit":"100/1m",
		"key":[{"claim":"sub","else":{"const":"nobody"}},{"region":{},"else":{"const":"nowhere"}}]}]}`
	e := startNew(t, withRules(t, rules), 1) // at 09:23:20
	e.known = map[string]string{jwtAuthnData + "payload\x00sub": "ann"}
	if got, want := keyOf(e, "/"), `ann|const nowhere`; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	e.known = nil
	e.pass(9_800)
	if got, want := keyOf(e, "/"), `const nobody|const nowhere`; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	e.pass(200)
	e.known = map[string]string{jwtAuthnData + "payload\x00sub": "bob"}
	if got := keyOf(e, "/"); got != "" {
		t.Errorf("key %s of a rule that has ended", got)
	}
}
