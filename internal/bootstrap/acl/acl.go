// Package acl makes the policies and tokens of a file in Consul, with the ids of the file. So programs can have their tokens
// before Consul runs. Several servers may do it at once and repeatedly.
package acl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/repeat"
)

// File is acl.json.
type File struct {
	// Management may do everything. Consul makes it by itself if it is acl.tokens.initial_management.
	Management Token `json:"management"`
	// Former are secrets of management before it, the newest last. One of them makes it, if Consul runs already.
	Former []string `json:"former,omitempty"`
	// Tokens have one policy each, of the same name.
	Tokens []Token `json:"tokens"`
}

// Token is a token and what it may do.
type Token struct {
	Name     string `json:"name"`
	Accessor string `json:"accessor"`
	Secret   string `json:"secret"`
	Rules    string `json:"rules,omitempty"` // empty: Management
}

// Waiting begins a report that changes nothing.
const Waiting = "waiting: "

// ours begins the description of what was made here.
const ours = "weir admin bootstrap: "

// Read reads a file.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := new(File)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("%s: %w; `weir admin bootstrap` makes this file", path, err)
	}
	if f.Management.Secret == "" || len(f.Tokens) == 0 {
		return nil, fmt.Errorf("%s has no management token or no tokens; `weir admin bootstrap` makes this file", path)
	}
	return f, nil
}

// ensurer makes what is missing.
type ensurer struct {
	*File
	consul *api.ACL
	raw    *api.Raw
	token  string // with which it calls
	report func(string)
}

// retryEvery is the pause after a failure.
const retryEvery = time.Second

// Ensure makes the policies and tokens of the file, and with prune deletes others that were made so. It tries
// again until ctx ends: Consul may have no leader yet. token is one that may do so; empty: that of the file. Each
// change is reported, and each new reason to wait.
func Ensure(ctx context.Context, address, token string, f *File, prune bool, report func(string)) error {
	config := api.DefaultConfig()
	config.Address = address
	config.Token, config.TokenFile = "", "" // each call has its own
	client, err := api.NewClient(config)
	if err != nil {
		return err
	}
	e := &ensurer{File: f, consul: client.ACL(), raw: client.Raw(), token: token, report: report}
	last := ""
	for {
		err := e.ensure(ctx, token == "")
		if err == nil && prune {
			err = e.prune(ctx)
		}
		switch {
		case err == nil:
			return nil
		case status(err, http.StatusUnauthorized):
			return fmt.Errorf("the agent at %s: %w; set acl.enabled there", address, err)
		case token != "" && status(err, http.StatusForbidden) && !strings.Contains(err.Error(), "ACL not found"):
			return fmt.Errorf("the agent at %s: %w; unset CONSUL_HTTP_TOKEN, so that the token of the file is used", address, err)
		case err.Error() != last && ctx.Err() == nil:
			last = err.Error()
			report(Waiting + last)
		}
		if !repeat.Sleep(ctx, retryEvery) {
			return fmt.Errorf("the agent at %s: %s; what was made stays, run this again", address, last)
		}
	}
}

// ensure makes what is missing. choose: with a token of management in the file.
func (e *ensurer) ensure(ctx context.Context, choose bool) error {
	if choose {
		if err := e.choose(ctx); err != nil {
			return err
		}
	}
	if err := e.ensureToken(ctx, e.Management, "global-management"); err != nil {
		return err
	}
	if choose {
		e.token = e.Management.Secret
	}
	for _, t := range e.Tokens {
		if err := e.ensurePolicy(ctx, t); err != nil {
			return err
		}
		if err := e.ensureToken(ctx, t, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// choose takes the token of management, or before Consul has that one, a former one.
func (e *ensurer) choose(ctx context.Context) error {
	for _, e.token = range append([]string{e.Management.Secret}, e.Former...) {
		if found, err := e.self(ctx, e.token); err != nil || found != nil {
			return err
		}
	}
	return errors.New("no management token of the file is accepted (yet?); set CONSUL_HTTP_TOKEN, or wait for the servers that have acl.tokens.initial_management of this file")
}

func (e *ensurer) ensurePolicy(ctx context.Context, t Token) error {
	policy, _, err := e.consul.PolicyReadByName(t.Name, e.read(ctx, e.token))
	switch {
	case status(err, http.StatusNotFound) || err == nil && policy == nil:
		_, _, err = e.consul.PolicyCreate(&api.ACLPolicy{Name: t.Name, Rules: t.Rules, Description: ours + t.Name}, e.write(ctx))
		return e.done(err, "policy "+t.Name+": made")
	case err != nil:
		return fmt.Errorf("policy %s: %w", t.Name, err)
	case policy.Rules == t.Rules:
		return nil
	}
	policy.Rules = t.Rules
	_, _, err = e.consul.PolicyUpdate(policy, e.write(ctx))
	return e.done(err, "policy "+t.Name+": changed")
}

func (e *ensurer) ensureToken(ctx context.Context, t Token, policy string) error {
	found, err := e.self(ctx, t.Secret)
	if err != nil {
		return fmt.Errorf("token %s: %w", t.Name, err)
	}
	path, done := "/v1/acl/token", "made"
	if found != nil {
		if len(found.Policies) == 1 && found.Policies[0].Name == policy {
			return nil
		}
		path, done = path+"/"+found.AccessorID, "changed"
		t.Accessor = found.AccessorID
	}
	// An older Consul rejects the fields that a newer client has.
	body := map[string]any{
		"AccessorID": t.Accessor, "SecretID": t.Secret, "Description": ours + t.Name, "Policies": []map[string]string{{"Name": policy}},
	}
	_, err = e.raw.Write(path, body, nil, e.write(ctx))
	return e.done(err, "token "+t.Name+": "+done)
}

// prune deletes what was made here before and is not in the file, and former tokens of management, of which
// Consul has made the first by itself.
func (e *ensurer) prune(ctx context.Context) error {
	wanted := map[string]bool{}
	for _, t := range append(e.Tokens, e.Management) {
		wanted[t.Accessor], wanted[t.Name] = true, true
	}
	tokens, _, err1 := e.consul.TokenList(e.read(ctx, e.token))
	policies, _, err2 := e.consul.PolicyList(e.read(ctx, e.token))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, t := range tokens {
		name, former := strings.CutPrefix(t.Description, ours)
		former = former && name != e.Management.Name && !wanted[t.AccessorID]
		if slices.Contains(e.Former, t.SecretID) {
			name, former = e.Management.Name, true
		}
		if former {
			_, err := e.consul.TokenDelete(t.AccessorID, e.write(ctx))
			if err := e.done(err, "former token "+name+": deleted"); err != nil {
				return err
			}
		}
	}
	for _, p := range policies {
		if strings.HasPrefix(p.Description, ours) && !wanted[p.Name] {
			_, err := e.consul.PolicyDelete(p.ID, e.write(ctx))
			if err := e.done(err, "former policy "+p.Name+": deleted"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *ensurer) done(err error, what string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what[:strings.LastIndex(what, ":")], err)
	}
	e.report(what)
	return nil
}

// self is the token with this secret; nil: Consul has none.
func (e *ensurer) self(ctx context.Context, secret string) (*api.ACLToken, error) {
	t, _, err := e.consul.TokenReadSelf(e.read(ctx, secret))
	if status(err, http.StatusForbidden) && strings.Contains(err.Error(), "ACL not found") {
		return nil, nil
	}
	return t, err
}

func (e *ensurer) read(ctx context.Context, token string) *api.QueryOptions {
	return (&api.QueryOptions{Token: token}).WithContext(ctx)
}

func (e *ensurer) write(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{Token: e.token}).WithContext(ctx)
}

func status(err error, code int) bool {
	var s api.StatusError
	return errors.As(err, &s) && s.Code == code
}
