package ruletests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// The fields of a test, per mapping. Package language describes the same; a test compares the two.
var (
	testFields     = []string{"name", "start", "pops", "request", "steps"}
	popFields      = []string{"region", "labels"}
	requestFields  = []string{"method", "url", "headers", "client", "claims", "metadata", "san", "route"}
	stepFields     = []string{"at", "pop", "request", "repeat", "lasts", "response", "expect", "fault"}
	responseFields = []string{"status", "grpc_status", "cost"}
	faultFields    = []string{"at", "fault"} // of a step that is one
	expectFields   = []string{
		"allowed", "denied", "key", "override", "remaining", "retry_after", "status", "headers", "shadow", "failed", "count",
	}
	countFields = []string{"allowed", "denied"}
)

const (
	nameForm    = "what the test shows, on one line, such as five logins a minute"
	popsForm    = "1 to 64 PoPs and their regions, such as { fra1: eu, nyc1: us }"
	testsForm   = "a list of tests, such as [{ name: a, steps: [{ request: GET /, expect: allowed }] }]"
	stepsForm   = "a list of steps, such as [{ request: GET /, expect: allowed }]"
	requestForm = "GET /path, or a mapping such as { method: POST, url: /login, client: 192.0.2.1 }"
)

// reader reads the tests of a document.
type reader struct {
	set             *rule.Set // nil: it has mistakes, and nobody knows the names of rules
	stated          []string  // the regions of the document
	divided         bool      // regions share a limit
	enforce, shadow []string  // the rules that do so, by their names as they are written and as they are expanded
	allow           []string  // enforce, and none
	tests           []Test
	named           map[string]int // tests by their names
}

// read is a [rulefile.Section].
func (r *reader) read(doc strict.Value, set *rule.Set) {
	if r.named = map[string]int{}; set != nil {
		r.know(set)
	}
	for _, v := range doc.Field("tests").List(maxTests, testsForm) {
		t := testReader{reader: r}
		if v.Object(testFields...) {
			t.read(v)
		}
		r.tests = append(r.tests, t.Test)
	}
}

// know notes what tests can name.
func (r *reader) know(set *rule.Set) {
	r.set = set
	for _, region := range set.Regions() {
		r.stated = append(r.stated, region.Name)
	}
	for i := range set.Len() {
		one := set.Rule(i)
		switch names := []string{rule.Written(one.Name), one.Name}; one.Mode {
		case rule.Shadow:
			r.shadow = append(r.shadow, names...)
		case rule.Off, rule.Exempt:
		default:
			r.enforce = append(r.enforce, names...)
		}
		r.divided = r.divided || one.Scope == rule.ScopeGlobal && one.Mode != rule.Off
	}
	r.enforce, r.shadow = unique(r.enforce), unique(r.shadow)
	r.allow = append(slices.Clip(r.enforce), noRule)
}

// unique sorts names, and has each once.
func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// testReader reads a test.
type testReader struct {
	*reader
	Test
	requests int
	end      limit.Micros // when the last request of the steps so far comes at the earliest
}

func (t *testReader) read(v strict.Value) {
	t.Line, t.start = v.Node().Pos.Line, cmp.Or(read.Time(v.Field("start")), noon)
	name := v.Field("name")
	name.Require(nameForm)
	switch text, ok := name.String(nameForm); {
	case !ok:
	case text == "" || len(text) > rule.MaxText || strings.ContainsAny(text, "\r\n"):
		name.Fail("is empty or too long; write " + nameForm)
	default:
		if first, taken := t.named[text]; taken {
			other := strict.Index("tests", first) + " (line " + strconv.Itoa(t.tests[first].Line) + ")"
			name.Fail(strict.Quote(text) + " is taken; write another name than " + other)
		}
		t.Name, t.named[text] = text, len(t.tests)
	}
	t.readPoPs(v.Field("pops"))
	var base request.Request
	readRequest(v.Field("request"), &base)
	v.Field("steps").Require(stepsForm)
	for _, step := range v.Field("steps").List(maxSteps, stepsForm) {
		t.step(step, base)
	}
	if v.Ok() && !slices.ContainsFunc(t.steps, func(s step) bool { return s.expect.outcome != "" || len(s.expect.fields) > 0 }) {
		v.FailName("steps", "expect nothing; write expect: allowed or expect: denied into one")
	}
}

// readPoPs reads the PoPs. Without any there is one, of the first region.
func (t *testReader) readPoPs(v strict.Value) {
	n := len(v.Names())
	if v.Is(strict.Object, popsForm) && (n == 0 || n > maxPoPs) {
		v.Fail("has " + strconv.Itoa(n) + " PoPs; write " + popsForm)
	}
	if n == 0 {
		t.pops = []pop{{name: "pop", region: cmp.Or(append(t.stated, "region")...)}}
	}
	for _, name := range v.Names() {
		p, region := pop{name: name}, v.Field(name)
		if whole := region; whole.Kind() == strict.Object && whole.Object(popFields...) {
			p.labels = texts(whole.Field("labels"), nil, strings.Clone, "labels, such as { tier: a }")
			region = whole.Field("region")
			region.Require("the name of its region")
		}
		if len(t.stated) > 0 {
			i, _ := region.OneOf("add it to regions, or ", t.stated)
			p.region = t.stated[i]
		} else if p.region, _ = region.String("the name of its region, such as eu"); region.Ok() && !rule.IsRegion(p.region) {
			region.Fail(strict.Quote(p.region) + " is no name of a region; write " + rule.RegionForm)
		}
		if !rule.IsRegion(name) {
			v.FailName(name, "is no name of a PoP; write "+rule.RegionForm)
		}
		t.pops = append(t.pops, p)
	}
	if t.divided {
		t.regions = slices.Clone(t.stated)
	}
	for _, p := range t.pops {
		t.regions = append(t.regions, p.region)
	}
	t.regions = unique(t.regions)
}

// texts reads a mapping of names to texts on top of another one, in which null removes a name; as is how names count.
func texts(v strict.Value, base map[string]string, as func(string) string, want string) map[string]string {
	if !v.Is(strict.Object, want) {
		return base
	}
	all := map[string]string{}
	maps.Copy(all, base)
	for _, name := range v.Names() {
		if v.Field(name).Kind() == strict.Null {
			delete(all, as(name))
			continue
		}
		all[as(name)], _ = v.Field(name).String("a text, or null for none")
	}
	if len(all) > maxNames {
		v.Fail(fmt.Sprintf("has %d names; write at most %d", len(all), maxNames))
	}
	return all
}

// readRequest reads a request on top of another one.
func readRequest(v strict.Value, q *request.Request) {
	host, url := q.Host, v.Field("url")
	text, located := url.String("a path such as /login, or https://HOST/PATH")
	switch {
	case v.Kind() == strict.String:
		q.Method, text, located = strings.Cut(v.Node().Text, " ")
		if url = v; !located || strings.Contains(text, " ") {
			v.Fail(strict.Quote(v.Node().Text) + " is no request; write " + requestForm)
			return
		}
	case !v.Is(strict.Object, requestForm) || !v.Object(requestFields...):
		return
	}
	if located {
		if err := q.Locate(text); err != nil {
			url.Fail(strict.Quote(text) + " is no URL; write a path such as /login, or https://HOST/PATH")
		}
		q.Host = cmp.Or(q.Host, host)
	}
	for i, field := range []*string{&q.Method, &q.Client, &q.SAN, &q.Route} {
		if text, ok := v.Field([]string{"method", "client", "san", "route"}[i]).String("a text"); ok {
			*field = text
		}
	}
	q.Headers = texts(v.Field("headers"), q.Headers, strings.ToLower, "headers, such as { x-tier: gold }")
	q.Claims = texts(v.Field("claims"), q.Claims, strings.Clone, "claims of the token, such as { sub: ann }")
	q.Metadata = texts(v.Field("metadata"), q.Metadata, strings.Clone, "dynamic metadata by NAMESPACE:KEY, such as { 'io.envoy.ai_gateway:llm_model': large }")
	if err := q.Check(); err != nil {
		v.FailName("client", strict.Quote(q.Client)+" is no IP address; write one, such as 192.0.2.1")
	}
}
