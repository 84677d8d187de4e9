package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// making makes requests of names and values in turn: now, region, peer and sub, a claim, are what they say, all others are
// headers. The last value of a name counts, - is none.
func making(text string) func(in *rule.Inputs) *rule.Request {
	of := map[string]string{}
	for pair := range slices.Chunk(strings.Fields(text), 2) {
		of[pair[0]] = strings.TrimPrefix(pair[1], "-")
	}
	return func(in *rule.Inputs) *rule.Request {
		q := new(rule.Request)
		q.Reset(in)
		for name, value := range of {
			q.Add(in, name, value)
		}
		if at := slices.Index(in.Metadata, rule.Source{From: rule.FromClaim, Name: "sub"}); at >= 0 && of["sub"] != "" {
			q.Metadata[at] = rule.Value{Text: of["sub"], Present: true}
		}
		seconds, _ := strconv.Atoi(of["now"])
		q.Now, q.Peer = limit.Micros(seconds)*limit.Second, of["peer"]
		q.PoP = &rule.PoP{Region: of["region"], Labels: map[string]string{"tier": of["region"]}}
		return q
	}
}

// Each clause is named when it is the first that fails, each other reason too.
func TestReasons(t *testing.T) {
	set := fatal.Get(read.JSON([]byte(`{"rules":[
		{"name":"open","mode":"exempt","match":{"path":"/open"},"exempts":["a"]},
		{"name":"a","match":{"method":"GET","host":"h","path":[{"prefix":"/a"},"/open"],"until":"2001-01-01T00:00:00Z","region":["eu"],
			"header":{"x":"1"},"query":{"q":"1"},"cookie":{"c":"1"},"label":{"tier":"eu"},"not":[{"header":{"n":"1"}},{"percent":1}],
			"client_ip":["10.0.0.0/8"],"claim":{"sub":"s"}},
			"key":[{"header":"user"}],"limit":"5/1m","overrides":[{"name":"free","when":{"header":{"plan":"free"}},"limit":"unlimited"},{"when":{"header":{"plan":"none"}},"limit":"unlimited"}]},
		{"name":"off","mode":"off","key":[],"limit":"5/1m"},
		{"name":"other","match":{"path":"/open"},"key":[],"limit":"5/1m","overrides":[{"name":"none","when":{"method":"GET"},"limit":"unlimited"}]}]}`)))(t)
	const good = "now 0 region eu peer 10.1.1.1 sub s :method GET :authority h :path /a?q=1 x 1 cookie c=1 user u "
	for want, change := range map[string]string{
		"applies": "", "method": ":method PUT", "host": ":authority i", "path": ":path /b?q=1", "until": "now 1000000000",
		"region": "region us", "header x": "x 2", "query q": ":path /a?q=2", "cookie c": "cookie c=2", "not[0]": "n 1",
		"client_ip": "peer 11.1.1.1", "claim sub": "sub -", "key": "user -",
		"by open": ":path /open?q=1", "unlimited free": "plan free", "unlimited 2": "plan none",
	} {
		all := Rules(set, nil, making(good+change))
		v := all[1]
		got := v.Failed
		switch {
		case v.Applies():
			got = "applies"
		case v.ExemptBy != "":
			got = "by " + v.ExemptBy
		case v.Unlimited:
			got = "unlimited " + v.Override
		}
		if got != want || all[2].Failed != "mode" || all[2].Applies() || all[0].Applies() != (want == "by open") {
			t.Errorf("%+v, want %s, others %+v", v, want, all)
		}
		if v := all[3]; want == "by open" && (v.ExemptBy != "" || !v.Unlimited || v.Override != "none") {
			t.Errorf("open does not lift it: %+v", v)
		}
	}
	left := map[string]bool{}
	for i := range 1000 { // one of a hundred is among the one percent
		left[Rules(set, nil, making(fmt.Sprint(good, "user u", i)))[1].Failed] = true
	}
	if !left["not[1]"] || !left[""] || len(left) != 2 {
		t.Errorf("of 1000 keys: %v", left)
	}
}

// What sheds load is told with the class of the request, and never lacks a key.
func TestShed(t *testing.T) {
	set := fatal.Get(read.JSON([]byte(`{"rules":[
		{"name":"open","mode":"exempt","match":{"header":{"open":"1"}}},
		{"name":"a","match":{"path":{"prefix":"/a"},"not":{"cookie":{"n":"1"}}},"key":[{"header":"user"}],"shed":{"capacity":9,"classes":[{"class":"critical","match":{"header":{"x":"1"}}}]}},
		{"name":"off","mode":"off","shed":{"capacity":9}}]}`)))(t)
	for _, c := range []struct {
		headers, want string
		known         request.Known
	}{
		{":path /a user ann", "normal ann", nil},
		{":path /a x 1", "critical ", nil},
		{":path /b x 1", "fails path", nil},
		{":path /a cookie n=1", "fails not[0]", nil},
		{":path /a x 1 open 1", "by open", nil},
		{":path /a user ann", "needs header open", request.Known{"path": true, "header cookie": true, "header user": true, "header x": true}},
		{":path /a user ann open 0", "needs header x", request.Known{"path": true, "header cookie": true, "header user": true, "header open": true}},
		{":path /b", "fails path", request.Known{"path": true}},
	} {
		all := Rules(set, c.known, making(c.headers))
		v, got := all[1], ""
		switch {
		case v.Shed != nil:
			got = v.Shed.Class.String() + " " + string(v.Shed.Key)
		case v.ExemptBy != "":
			got = "by " + v.ExemptBy
		case v.Failed != "":
			got = "fails " + v.Failed
		case v.Unknown():
			got = "needs " + v.Needs[0]
		}
		if got != c.want || v.Applies() != (v.Shed != nil) || v.Hit != nil || v.Capacity() != -1 || all[2].Failed != "mode" {
			t.Errorf("%s: %q, want %q: %+v", c.headers, got, c.want, v)
		}
		if i := Rejecter(all, func(int) int64 { return 0 }); i >= 0 {
			t.Errorf("%s: rejected by %s", c.headers, set.Rule(i).Name)
		}
	}
}

// The rule that rejects a request is the first one, in the order in which a PoP asks, of which less is left than the request
// costs: exact rules come before others.
func TestRejecter(t *testing.T) {
	set := fatal.Get(read.JSON([]byte(`{"rules":[
		{"name":"trial","mode":"shadow","key":[],"limit":"1/1m"},
		{"name":"pop","scope":"pop","key":[],"limit":"100/1m"},
		{"name":"leased","consistency":"leased","key":[{"header":"user"}],"limit":"100/1m","cost":{"header":"cost","max":9},
			"overrides":[{"when":{"header":{"plan":"none"}},"limit":"0/1m"},{"key":["bob"],"limit":"0/1m"},{"key":["eve"],"limit":"unlimited"}]},
		{"name":"bucket","consistency":"exact","algorithm":"token_bucket","key":[],"limit":{"count":5,"per":"1m","burst":50},"cost":{"header":"two","max":50}}]}`)))(t)
	for _, c := range []struct {
		headers string
		left    map[string]int64
		want    string
	}{
		{"user ann", nil, ""},
		{"user ann", map[string]int64{"trial": 0, "pop": 1, "leased": 1, "bucket": 1}, ""},
		{"user ann", map[string]int64{"pop": 0, "leased": 0, "bucket": 0}, "bucket"},
		{"user ann", map[string]int64{"pop": 0, "leased": 0}, "pop"},
		{"user ann cost 9", map[string]int64{"leased": 8}, "leased"},
		{"user ann two 50", nil, ""}, {"user ann two 50", map[string]int64{"bucket": 49}, "bucket"}, // it may hold a burst
		{"user ann plan none", nil, "leased"}, {"user bob", nil, "leased"}, {"user eve cost 9", nil, ""},
		{"", map[string]int64{"leased": 0}, ""}, // it lacks the key
	} {
		all, got := Rules(set, nil, making(c.headers)), ""
		if i := Rejecter(all, func(i int) int64 {
			if n, ok := c.left[all[i].Rule.Name]; ok {
				return n
			}
			return -1
		}); i >= 0 {
			got = all[i].Rule.Name
		}
		if got != c.want {
			t.Errorf("%s, %v left: rejected by %q, want %q", c.headers, c.left, got, c.want)
		}
	}
}
