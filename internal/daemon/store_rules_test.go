package daemon

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// storing is a configuration whose rules are kept beside the state file, which has this name in dir.
func storing(t *testing.T, dir, state string) *Config {
	cfg := testConfig()
	cfg.Listen, cfg.Rules, cfg.RulesCopy, cfg.State = proc.FreeAddr(t), "store:", "auto", filepath.Join(dir, state)
	return cfg
}

// rejected waits until a tier is not ready because of this.
func rejected(t *testing.T, tier *Tier, want string) {
	t.Helper()
	proc.Await(t, time.Minute, "readiness", func() string {
		if got := strings.Join(tier.Ready.Reasons(), "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
			return fmt.Sprintf("not ready because of %q, want %q", got, want)
		}
		return ""
	})
}

// Rules that one process keeps are changed through its API, and come into force then: a key's own limit, too. They are there
// when it starts again. A second one is not ready for as long as the first one runs, and takes over when that ends.
func TestRulesInStore(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	begin := func(t *testing.T, state string) (*Tier, *client.Client) {
		cfg := storing(t, dir, state)
		cfg.AdminListen = proc.FreeAddr(t)
		tier := runBeside(t, cfg, ofRegion, quiet)
		asks(t, http.DefaultClient, "http://"+cfg.AdminListen+"/healthz")
		return tier, fatal.Get(client.Open("", cfg.AdminListen))(t)
	}
	var rules v1.Rules
	ifMatch := map[string]string{http.MethodPut + "/v1/rules": `"0"`}
	do := func(t *testing.T, c *client.Client, method, path string, body, into any) {
		t.Helper()
		fatal.Get(c.Do(t.Context(), client.Call{Method: method, Path: path, IfMatch: ifMatch[method+path], Body: body}, into))(t)
	}
	inForce := func(t *testing.T, tier *Tier) {
		t.Helper()
		rejected(t, tier, "")
		if got := rule.Number(tier.revision()); got != rules.Version.Revision {
			t.Errorf("revision %d, want %d", got, rules.Version.Revision)
		}
	}
	if !t.Run("both", func(second *testing.T) {
		var waits *Tier
		if !second.Run("first", func(t *testing.T) {
			first, c := begin(t, "state")
			rejected(t, first, "no rules yet")
			document := "rules: [{ name: a, key: [{ header: x-user }], limit: 5/1m, match: { region: eu } }]\n"
			do(t, c, http.MethodPut, "/v1/rules", v1.Change{Document: document, Why: "begin"}, nil)
			do(t, c, http.MethodPut, "/v1/overrides", amend.Amendment{Rule: "a", Key: []string{"acme"}, Limit: []byte(`"50/1m"`), Until: time.Now().Add(time.Hour), Why: "test"}, nil)
			proc.Await(t, time.Minute, "the override", func() string {
				var got v1.Counters
				_, err := c.Do(t.Context(), client.Call{Method: http.MethodPost, Path: "/v1/keys:peek", Body: v1.Key{Rule: "a", Counted: "acme"}}, &got)
				if err != nil { // the rule is not in force yet
					return err.Error()
				}
				if got.Items[0].Limit != 50 || !got.Items[0].OwnLimit {
					return fmt.Sprintf("%+v", got)
				}
				return ""
			})
			if do(t, c, http.MethodGet, "/v1/rules", nil, &rules); rules.Source != "store" || rules.Document != document || rules.InForce.Revision != rules.Version.Revision {
				t.Errorf("%+v", rules)
			}
			var audit v1.Audit
			if do(t, c, http.MethodGet, "/v1/audit", nil, &audit); len(audit.Items) != 2 || audit.Items[0].What != "override.set" {
				t.Errorf("%+v", audit)
			}
			inForce(t, first)
			waits, _ = begin(second, "state-2")
			rejected(t, waits, "is in use by process")
		}) {
			return
		}
		inForce(second, waits)
	}) {
		return
	}
	again, _ := begin(t, "state")
	inForce(t, again)
}

// Several replicas would each have rules of their own.
func TestStoreReplicas(t *testing.T) {
	cfg := storing(t, t.TempDir(), "state")
	cfg.Replicas = 2
	tier := runBeside(t, cfg, ofRegion, quiet)
	rejected(t, tier, "rules: store: keeps the rules on the disk of one replica")
	for text, want := range map[string]string{"store:eu": "text after store:", "store:": ""} {
		cfg.Rules = text
		if err := cfg.checkRules(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
