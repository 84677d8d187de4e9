package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/bootstrap/acl"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// ensure makes policies and tokens, and returns what it reports.
func ensure(t *testing.T, address string, s *State, prune bool) (lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := s.acl()
	report := func(line string) {
		if !strings.HasPrefix(line, acl.Waiting) { // for a leader, which changes where a server gets no processor for a while
			lines = append(lines, line)
		}
	}
	if err := acl.Ensure(ctx, address, "", &f, prune, report); err != nil {
		t.Fatalf("%v after %v", err, lines)
	}
	return lines
}

// accepted reports whether Consul has a token with this secret.
func accepted(t *testing.T, a *consultest.Agent, secret string) bool {
	t.Helper()
	_, _, err := a.API(secret).ACL().TokenReadSelf(nil)
	if err != nil && !strings.Contains(err.Error(), "ACL not found") {
		t.Fatal(err)
	}
	return err == nil
}

// TestACL goes through a datacenter of three servers, and then one of a single server, which cannot lose an election: a new
// leader makes the management token of its configuration again.
func TestACL(t *testing.T) {
	t.Parallel()
	s, _ := run(t, options(t), begin)
	s.Tokens[management] = Token{Accessor: s.Tokens[management].Accessor, Secret: consultest.Management}
	dc := consultest.StartDatacenter(t, consultest.Config{Dir: proc.LogDir(t), Servers: 3, ACL: true})
	ensures(t, dc, s)
	one := consultest.StartDatacenter(t, consultest.Config{Dir: proc.LogDir(t), Name: "dc2", ACL: true}).Servers[0]
	ensure(t, one.Addr, s, false)
	putRight(t, one, s)
	rights(t, one, s)
	rotates(t, one, s)
	rejects(t, one, s.Tokens["rules"].Secret)
}

// Three servers make tokens and policies at once, while there is no leader yet. A run that was killed is completed.
func ensures(t *testing.T, dc *consultest.Datacenter, s *State) {
	killed, kill := context.WithTimeout(t.Context(), time.Minute)
	f := s.acl()
	if err := acl.Ensure(killed, dc.Servers[0].Addr, "", &f, false, func(line string) {
		if strings.HasPrefix(line, "token weir-eu-replica") {
			kill()
		}
	}); !errors.Is(killed.Err(), context.Canceled) {
		t.Fatalf("the first run was not killed: %v", err)
	}
	for _, a := range dc.Servers[1:] {
		a.Stop()
	}
	var all sync.WaitGroup
	for _, a := range dc.Servers {
		all.Go(func() { ensure(t, a.Addr, s, false) })
	}
	for _, a := range dc.Servers[1:] {
		a.Begin()
	}
	all.Wait()
	for name, token := range s.Tokens {
		if !accepted(t, dc.Servers[0], token.Secret) {
			t.Errorf("%s is not there", name)
		}
	}
}

// A run with nothing to do does nothing; what somebody has changed is put right.
func putRight(t *testing.T, a *consultest.Agent, s *State) {
	if lines := ensure(t, a.Addr, s, true); len(lines) > 0 {
		t.Errorf("with nothing to do: %v", lines)
	}
	operator := a.API(consultest.Management).ACL()
	policy, _, err1 := operator.PolicyReadByName("weir-us-dns", nil)
	policy.Rules = `operator = "write"`
	_, _, err2 := operator.PolicyUpdate(policy, nil)
	_, err3 := operator.TokenDelete(s.Tokens["rules"].Accessor, nil)
	fatal.If(t, errors.Join(err1, err2, err3))
	if lines := ensure(t, a.Addr, s, false); !slices.Equal(lines, []string{"token weir-rules: made", "policy weir-us-dns: changed"}) {
		t.Errorf("put right: %v", lines)
	}
}

// Each token has the policy of its program, and not that of another. What the policies allow is tested in internal/consul.
func rights(t *testing.T, a *consultest.Agent, s *State) {
	const register, catalog, rules = "/v1/agent/service/register", "/v1/catalog/register", "/v1/kv/weir/rules/x"
	const replica, tokens = `{"Name": "weir-regional-eu", "Port": 8080}`, "/v1/acl/tokens"
	for _, c := range []struct {
		token, path, body string // no body: it reads a list
		may               bool
	}{
		{"eu-replica", register, replica, true},
		{"us-replica", register, replica, false},
		{"aggregator", register, `{"Name": "weir-global", "Port": 8080}`, true},
		{"rules", rules, `{}`, true},
		{"eu-replica", rules, `{}`, false},
		{"eu-dns", "/v1/catalog/service/weir-regional-eu", "", true},
		{"us-dns", "/v1/catalog/service/weir-regional-eu", "", false},
		{"eu-pop-agent", catalog, `{"Node": "eu-pop-i-1", "Address": "127.0.0.1"}`, true},
		{"eu-consul-agent", catalog, `{"Node": "eu-pop-i-2", "Address": "127.0.0.1"}`, false},
		{"aggregator-agent", catalog, `{"Node": "eu-aggregator-i-1", "Address": "127.0.0.1"}`, true},
		{"replication", tokens, "", true},
		{management, tokens, "", true},
	} {
		proc.Await(t, time.Minute, fmt.Sprintf("%s may call %s: %v", c.token, c.path, c.may), func() string { // the catalog follows the agent
			var found []any
			var err error
			if raw := a.API(s.Tokens[c.token].Secret).Raw(); c.body != "" {
				_, err = raw.Write(c.path, json.RawMessage(c.body), nil, nil)
			} else if _, err = raw.Query(c.path, &found, nil); err == nil && len(found) == 0 {
				err = errors.New("403: an empty list")
			}
			if rejected := err != nil && strings.Contains(err.Error(), "403"); rejected == c.may || err != nil && !rejected {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
}

// New tokens are accepted beside the former ones, until these are pruned.
func rotates(t *testing.T, a *consultest.Agent, s *State) {
	generations := []map[string]Token{s.Tokens}
	for range 2 {
		s.retire()
		s.completeTokens()
		generations = append(generations, s.Tokens)
		if len(generations) == 2 {
			continue // a rotation that Consul never hears of
		}
		ensure(t, a.Addr, s, false)
	}
	check := func(when string, want ...bool) {
		t.Helper()
		for i, tokens := range generations {
			for name, token := range tokens {
				if accepted(t, a, token.Secret) != want[i] {
					t.Errorf("%s: %s of generation %d accepted: %v", when, name, i, !want[i])
				}
			}
		}
	}
	check("rotated", true, false, true)
	if lines := ensure(t, a.Addr, s, true); len(lines) != len(s.Tokens) {
		t.Errorf("pruned: %v", lines)
	}
	check("pruned", false, false, true)
	if lines := ensure(t, a.Addr, s, true); len(lines) > 0 {
		t.Errorf("pruned again: %v", lines)
	}
}

// Without Consul, or with a token that it does not have, the error says what to do.
func rejects(t *testing.T, a *consultest.Agent, little string) {
	s, _ := run(t, options(t), begin)
	f := s.acl()
	try := func(address, token, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := acl.Ensure(ctx, address, token, &f, false, func(string) { cancel() }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	without := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "ACL support disabled", http.StatusUnauthorized) // as Consul answers
	}))
	defer without.Close()
	try(proc.FreeAddr(t), "", "connection refused; what was made stays, run this again")
	try(without.Listener.Addr().String(), "", "set acl.enabled there")
	try(a.Addr, "", "no management token of the file is accepted")
	try(a.Addr, little, "unset CONSUL_HTTP_TOKEN, so that the token of the file is used")
}
