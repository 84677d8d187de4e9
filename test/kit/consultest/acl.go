package consultest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Management is the token of the operator of every datacenter with ACL.
const Management = "11111111-2222-3333-4444-555555555555"

// protect makes an agent refuse what no policy allows. Each region has a copy of all tokens, so
// that they are good while the primary is away.
func (d *Datacenter) protect(a *Agent, settings map[string]any) {
	if !d.cfg.ACL {
		return
	}
	a.Token = Management
	tokens := map[string]any{"initial_management": Management, "agent": Management}
	acl := map[string]any{"enabled": true, "default_policy": "deny", "enable_token_replication": true, "tokens": tokens}
	if d.cfg.Primary != nil {
		settings["primary_datacenter"], tokens["replication"] = d.cfg.Primary.Name, Management
	} else {
		settings["primary_datacenter"] = d.Name
	}
	for name, secret := range d.cfg.Tokens {
		tokens[name] = secret
	}
	settings["acl"] = acl
}

// NewToken makes a token in the primary that allows what these rules of a policy allow, and
// waits until it is good in all datacenters.
func (d *Datacenter) NewToken(rules string) (secret string) {
	d.t.Helper()
	primary := d
	if d.cfg.Primary != nil {
		primary = d.cfg.Primary
	}
	leader := primary.Leader()
	var token struct{ SecretID string }
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	leader.mustCall(http.MethodPut, "/v1/acl/policy", map[string]any{"Name": name, "Rules": rules}, nil)
	leader.mustCall(http.MethodPut, "/v1/acl/token", map[string]any{"Policies": []map[string]string{{"Name": name}}}, &token)
	for _, dc := range append([]*Datacenter{primary}, primary.secondary...) {
		for _, a := range dc.Servers {
			proc.Await(d.t, time.Minute, "the token at "+a.Name, func() string {
				if !a.Answers() {
					return ""
				}
				return textOf(a.call(http.MethodGet, "/v1/acl/token/self", token.SecretID, nil, nil))
			})
		}
	}
	return token.SecretID
}

// SetDNSToken gives an agent the token with which it answers questions of DNS.
func (a *Agent) SetDNSToken(secret string) {
	a.t.Helper()
	a.mustCall(http.MethodPut, "/v1/agent/token/dns", map[string]string{"Token": secret}, nil)
}

func (a *Agent) mustCall(method, path string, body, into any) {
	a.t.Helper()
	if err := a.call(method, path, a.Token, body, into); err != nil {
		a.t.Fatalf("%s: %v", a.Name, err)
	}
}
