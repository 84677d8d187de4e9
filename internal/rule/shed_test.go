package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/shed"
)

// sheds are the rules that shed load and apply, each with the class and the key of the request.
func sheds(set *rule.Set, m *rule.Matches) string {
	var out []string
	for _, h := range m.Sheds {
		out = append(out, fmt.Sprintf("%s:%s:%s", set.Rule(h.Rule).Name, h.Class, h.Key))
	}
	return strings.Join(out, " ")
}

const shedding = `{"rules":[
	{"name":"api","match":{"path":{"prefix":"/api/"}},"key":[{"header":"x-user"},{"segment":"id","else":{"query":"id"}}],"limit":"5/1m"},
	{"name":"overload","match":{"path":{"prefix":"/API/"},"ignore_case":true},"key":[{"header":"X-User"},{"query":"id","else":"path"}],
		"shed":{"capacity":200,"classes":[{"class":"critical","match":{"path":"/api/checkout"}},
			{"class":"bulk","match":{"path":{"prefix":"/api/export/"},"not":{"cookie":{"c":"1"}}}},
			{"class":"low","match":{"host":"*.Example.org"}},{"class":"critical","match":{"claim":{"plan":"gold"}}}]}},
	{"name":"trial","mode":"shadow","match":{"method":"POST"},"shed":{"capacity":1}},
	{"name":"gone","mode":"off","shed":{"capacity":1}},
	{"name":"probes","mode":"exempt","match":{"header":{"x-probe":"1"}},"exempts":["overload"]},
	{"name":"internal","mode":"exempt","match":{"header":{"x-internal":"1"}}}]}`

// TestShed: a rule that sheds load applies as others do, also to a request that lacks its key, which it has none then. The first
// class that holds counts, and exempt rules lift the rule.
func TestShed(t *testing.T) {
	set := decode(t, strings.Replace(shedding, `{"segment":"id","else":{"query":"id"}}`, `{"query":"id"}`, 1))
	for _, test := range []struct{ headers, want, lacking string }{
		{":path /other :method GET", "", ""},
		{":path /api/x :method GET", "overload:normal:", "api"}, // lacks x-user
		{":path /api/x :method GET x-user ann", `overload:normal:ann|path /api/x`, "api"},
		{":path /Api/X?id=7 :method GET x-user ann", "overload:normal:ann|7", ""},
		{":path /api/checkout?id=7 :method POST :authority a.example.org x-user ann", "overload:critical:ann|7 trial:normal:", ""},
		{":path /api/export/a?id=7 :authority a.example.org x-user ann", "overload:bulk:ann|7", ""},
		{":path /api/export/a?id=7 :authority a.example.org:80 x-user ann cookie c=1", "overload:low:ann|7", ""},
		{":path /other :method POST", "trial:normal:", ""},
		{":path /api/x?id=7 :method POST x-user ann x-probe 1", "trial:normal:", ""},
		{":path /api/x?id=7 :method POST x-user ann x-internal 1", "", ""},
	} {
		q, m := request(set, strings.Fields(test.headers)...), rule.Matches{}
		for range 2 { // it can be used again
			set.Match(q, &m)
		}
		if got := [2]string{sheds(set, &m), strings.Join(names(set, m.MissingKey), " ")}; got != [2]string{test.want, test.lacking} {
			t.Errorf("%s: sheds and missing key are %q, want %q and %q", test.headers, got, test.want, test.lacking)
		}
	}
	q, m := request(set, ":path", "/api/x"), rule.Matches{}
	q.Metadata = []rule.Value{{Text: "gold", Present: true}}
	if set.Match(q, &m); sheds(set, &m) != "overload:critical:" {
		t.Errorf("by a claim: %q", sheds(set, &m))
	}
	for _, name := range []string{":authority", ":path", "cookie", "x-user"} {
		if set.Inputs().Header(name) < 0 {
			t.Errorf("%s is not among the inputs %q", name, set.Inputs().Headers)
		}
	}
	if again := decode(t, string(set.Encode())); again.Version != set.Version || string(again.Encode()) != string(set.Encode()) {
		t.Errorf("%s\nis read as\n%s", set.Encode(), again.Encode())
	}
}

// TestShedCostsNothing: no request allocates, and one on a path that no rule that sheds is for does not even look at one.
func TestShedCostsNothing(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","match":{"path":{"prefix":"/api/"}},"key":[{"header":"x-user"}],"shed":{"capacity":9,"classes":[{"class":"low","match":{"path":"/api/x"}}]}}]}`)
	q, m := request(set, ":path", "/api/x", "x-user", "ann"), rule.Matches{}
	if n := testing.AllocsPerRun(100, func() { set.Match(q, &m) }); n > 0 || sheds(set, &m) != "a:low:ann" {
		t.Errorf("%v allocations for %s", n, sheds(set, &m))
	}
	if !set.Inputs().ByPath || !set.Excludes(request(set, ":path", "/other"), &m) {
		t.Error("another path is not excluded")
	}
}

// TestShares: a share that is stated lowers the defaults of the classes below it, and in the compiled form all are stated or none.
func TestShares(t *testing.T) {
	for stated, want := range map[string][shed.Classes]int64{
		``:                                        {40, 60, 80, 100},
		`,"shares":{}`:                            {40, 60, 80, 100},
		`,"shares":{"low":60}`:                    {40, 60, 80, 100},
		`,"shares":{"normal":90}`:                 {40, 60, 90, 100},
		`,"shares":{"normal":50}`:                 {40, 50, 50, 100},
		`,"shares":{"normal":30,"bulk":1}`:        {1, 30, 30, 100},
		`,"shares":{"normal":100,"low":100}`:      {40, 100, 100, 100},
		`,"shares":{"bulk":60}`:                   {60, 60, 80, 100},
		`,"shares":{"bulk":5,"low":5,"normal":5}`: {5, 5, 5, 100},
	} {
		set := decode(t, `{"rules":[{"name":"a","shed":{"capacity":9`+stated+`}}]}`)
		if got := set.Rule(0).Shed.Shares; got != want {
			t.Errorf("%s: %v, want %v", stated, got, want)
		}
		plain := want == [shed.Classes]int64{40, 60, 80, 100}
		if again := decode(t, string(set.Encode())); again.Rule(0).Shed.Shares != want || plain == strings.Contains(string(set.Encode()), "shares") {
			t.Errorf("%s is %s", stated, set.Encode())
		}
	}
}

// TestShedCanonical: what means the same has one version, and what is at its default is left out.
func TestShedCanonical(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","mode":"enforce","key":[],"headers":["draft"],"shed":{"shares":{"low":60},"classes":[],"profile":"slow","capacity":1000000}}]}`)
	if got, want := string(set.Encode()), `{"rules":[{"name":"a","shed":{"capacity":1000000}}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	set = decode(t, `{"rules":[{"name":"a","mode":"shadow","match":{"path":"/a"},"key":["client_ip"],"headers":"off","hide_keys":true,
		"shed":{"capacity":1,"profile":"fast","success":95,"classes":[{"class":"normal","match":{"header":{"X-B":"1","X-A":"2"}}}],"shares":{"bulk":10}}}]}`)
	want := `{"rules":[{"name":"a","mode":"shadow","match":{"path":["/a"]},"key":["client_ip"],"shed":{"capacity":1,"profile":"fast","success":95,` +
		`"classes":[{"class":"normal","match":{"header":{"x-a":"2","x-b":"1"}}}],"shares":{"normal":80,"low":60,"bulk":10}},"headers":"off","hide_keys":true}]}`
	if got := string(set.Encode()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r := set.Rule(0); r.Limited() || len(r.Limits) > 0 || set.Limit(0, 0) != nil {
		t.Errorf("it has a limit: %+v", r)
	}
}
