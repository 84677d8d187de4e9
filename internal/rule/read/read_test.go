package read_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestRejected: a mistake, also in a rule that is expanded, stands where the document has its field, and is told once. In
// testdata/rejected.golden a line with $ is a document.
func TestRejected(t *testing.T) {
	golden.Lines(t, "testdata/rejected.golden", func(doc string) string {
		set, err := read.JSON([]byte(doc))
		if set != nil || err == nil {
			t.Fatalf("%s is taken", doc)
		}
		return err.Error()
	})
}

func TestRevision(t *testing.T) {
	for doc, want := range map[string]uint64{`{"revision":7,"rules":[]}`: 7, `{"rules":[]}`: 0} {
		if set := fatal.Get(read.JSON([]byte(doc)))(t); set.Number() != want || set.Stated() != (want > 0) {
			t.Errorf("%s: revision %d", doc, set.Number())
		}
	}
}

// TestReadFromAnotherDocument: the filter has rules in its plugin configuration.
func TestReadFromAnotherDocument(t *testing.T) {
	n := fatal.Get(strict.ParseJSON([]byte(`{"pop":"p","fallback":{"rules":[{"name":"","key":[],"limit":"5/1m"}]}}`)))(t)
	var errs strict.Errors
	v := strict.Root(n, &errs)
	const want = `1:41: fallback.rules[0].name: is empty; write 1 to 64 letters, digits, - or _`
	if set := read.Document(v.Field("fallback"), nil); set != nil || errs.Error() != want {
		t.Errorf("set %v, errors %v", set, errs)
	}
	errs = nil
	if set := read.Document(strict.Root(n, &errs).Field("gone"), nil); set != nil || errs.Error() != "1:1: gone: is missing; write a mapping with rules" {
		t.Errorf("set %v, errors %v", set, errs)
	}
}

// TestRoundTrip: the compiled form of each good file is taken, and is its own compiled form.
func TestRoundTrip(t *testing.T) {
	for _, file := range golden.Files(t, "../../ruleset/rulefile/testdata/good_*.golden") {
		_, compiled, _ := strings.Cut(strings.TrimSpace(string(golden.Content(t, file))), "\n")
		set, err := read.JSON([]byte(compiled))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := string(set.Encode()); got != compiled {
			t.Errorf("%s: decoded and encoded\n%s\nfrom\n%s", file, got, compiled)
		}
	}
}

// FuzzDecode: no bytes break the decoder, and what it takes is stable.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"rules":[]}`))
	f.Add([]byte(`{"client_ip":{"trusted_hops":1},"rules":[{"name":"a","match":{"method":["GET"],"host":["*.a"],"path":[{"prefix":"/a"}],"header":{"x":{"present":true}}},"key":["client_ip",{"header":"u","else":{"query":"q"}}],"limit":{"count":5,"per":"1m","burst":6},"overrides":[{"when":{"header":{"t":"g"}},"limit":"7/1m"}],"cost":{"header":"c","max":5},"count":{"status":[401,"5xx"],"grpc_status":[0,16]},"on_failure":{"action":"local","expected_pops":3},"lease":{"interval":"200ms","ttl":"5s"},"headers":["draft","x-unix"],"rejection":{"status":403,"body":"{\"rule\":\"{rule}\"}","content_type":"application/json","grpc_status":7},"retry_jitter":10,"hide_keys":true}]}`))
	f.Add([]byte(`{"seed":7,"rules":[{"name":"a","match":{"path":{"template":"/a/{id}"},"query":{"v":"1"},"cookie":{"c":{"present":false}},"claim":{"a.b":"1"},"metadata":{"a:b":"1"},"label":{"l":{"prefix":"x"}},"client_ip":["10.0.0.0/8","fd00::1"],"trusted_hops":1,"region":"eu","percent":{"from":20,"to":100},"until":"2026-12-01T00:00:00Z","not":[{"percent":3}]},"key":[{"segment":"id"},{"cookie":"c","else":{"claim":"sub","else":{"label":"l","else":"san"}}},"host","route","region",{"metadata":{"namespace":"a","key":"b"}}],"limit":"5/1m","cost":{"metadata":{"namespace":"a","key":"b"},"max":5}}]}`))
	f.Add([]byte(`{"rules":[{"name":"a","key":[],"limit":3,"algorithm":"concurrency"}]}`))
	f.Add([]byte(`{"rules":[{"name":"a","mode":"shadow","match":{"path":{"prefix":"/a"}},"key":[{"header":"u","else":"client_ip"}],"shed":{"capacity":200,"profile":"fast","success":95,"classes":[{"class":"critical","match":{"path":"/a"}},{"class":"bulk","match":{"not":{"cookie":{"c":"1"}}}}],"shares":{"normal":90,"low":9}},"headers":"off","hide_keys":true},{"name":"b","mode":"exempt","exempts":["a"]}]}`))
	f.Add([]byte(`{"regions":{"eu":3,"us":1},"rules":[{"name":"a","key":[],"limit":"3/1m","scope":"global","on_failure":"allow"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		set, err := read.JSON(doc)
		if err != nil {
			if set != nil || err.Error() == "" {
				t.Fatalf("set %v, error %q", set, err)
			}
			return
		}
		again, err := read.JSON(set.Encode())
		if err != nil {
			t.Fatalf("%s: %v", set.Encode(), err)
		}
		if again.Version != set.Version {
			t.Errorf("%s becomes %s", set.Encode(), again.Encode())
		}
		q, m := rule.Request{Method: "GET", Host: "x.a", Path: "/a?q=1", Peer: "::1"}, rule.Matches{}
		q.Headers = make([]rule.Value, len(set.Inputs().Headers))
		set.Match(&q, &m)
	})
}

// TestUntilIsAnEnd: a time that has long passed ends what has it; it is not the same as none.
func TestUntilIsAnEnd(t *testing.T) {
	for in, legal := range map[string]bool{
		`"match":{"until":"1970-01-01T00:00:00Z"}`: false, `"match":{"until":"1970-01-01T00:00:01Z"}`: true,
		`"overrides":[{"key":["a"],"limit":"unlimited","until":"1970-01-01T01:00:00+01:00"}]`: false,
	} {
		_, err := read.JSON([]byte(`{"rules":[{"name":"a","key":["host"],"limit":"5/1m",` + in + `}]}`))
		if legal != (err == nil) || err != nil && !strings.Contains(err.Error(), "until: ") {
			t.Errorf("%s: %v, want it legal: %v", in, err, legal)
		}
	}
}
