package rulesapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A rule in force is told in words, with what its limit lets pass and a request that it matches. One that is not there is 404.
func TestInForce(t *testing.T) {
	t.Parallel()
	d := fatal.Get(rulefile.Read("rules.yaml", []byte("rules: [{ name: login, key: [client_ip], limits: [5/1m, 50/1d], match: { path: /login } }]\n")))(t)
	set := d.Set
	w := newWorld(t, nil, Config{Set: func() *rule.Set { return set }})
	var got v1.RulesInForce
	w.Call("viewer", http.MethodGet, "/v1/rules/in-force/login", "", nil, &got, 200)
	if len(got.Items) != 2 || got.Items[0].Words[0] != "5 requests per minute per client IP" || got.Items[0].PerSecond != 5./60 || got.Items[0].Mode != "enforce" || got.Items[0].Example.Path != "/login" {
		t.Errorf("%+v", got)
	}
	w.Call("viewer", http.MethodGet, "/v1/rules/in-force/login@1d", "", nil, &got, 200)
	if len(got.Items) != 1 || got.Items[0].Rule != "login@1d" {
		t.Errorf("%+v", got)
	}
	for range 2 {
		w.fails("viewer", http.MethodGet, "/v1/rules/in-force/log", "", nil, 404, v1.CodeNoRule, "log")
		set = nil
	}
}

// The history of a rule has the versions that changed it, what it is expanded into, or its overrides and candidates.
func TestVersionsOfRule(t *testing.T) {
	w := onStore(t, inStore(t))
	const begin = "rules:\n- { name: login, key: [{ header: x-user }], limits: [5/1m, 50/1d] }\n"
	const more = begin + "- { name: log, key: [], limit: 5/1m }\n"
	tag := `"0"`
	put := func(document, why string) { t.Helper(); tag, _ = w.put("ann", tag, document, why) }
	change := func(rule, why string) {
		t.Helper()
		tag, _ = w.Call("operator", http.MethodPut, "/v1/candidates", "", amend.Amendment{Rule: rule, Limit: json.RawMessage(`"3/1m"`), Until: time.Now().Add(time.Hour), Why: why}, nil, 200)
	}
	put(begin, "login")
	put(more, "log")
	change("log", "candidate of log")
	put("# a comment\n"+more, "nothing")
	put(strings.Replace(more, "50/1d", "60/1d", 1), "more per day")
	change("login", "candidate of login")
	put(strings.Replace(begin, "login", "other", 1), "login is gone")
	for name, want := range map[string]string{"login": "login is gone, candidate of login, more per day, login", "log": "login is gone, candidate of log, log", "lo": ""} {
		var page v1.Versions
		w.Call("viewer", http.MethodGet, "/v1/rules/versions?rule="+name, "", nil, &page, 200)
		var why []string
		for _, v := range page.Items {
			why = append(why, v.Why)
		}
		if got := strings.Join(why, ", "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
