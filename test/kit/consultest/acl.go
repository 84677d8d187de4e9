package consultest

import (
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Management is the token of the operator of every datacenter with ACL.
const Management = "11111111-2222-3333-4444-555555555555"

// protect makes an agent reject what no policy allows. Each region has a copy of all tokens, so
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
	operator := primary.Leader().API(Management)
	var token struct{ SecretID string }
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	_, _, err := operator.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	fatal.If(d.t, err)
	_, err = operator.Raw().Write("/v1/acl/token", map[string]any{"Policies": []map[string]string{{"Name": name}}}, &token, nil)
	fatal.If(d.t, err)
	for _, dc := range append([]*Datacenter{primary}, primary.secondary...) {
		for _, a := range dc.Servers {
			proc.Await(d.t, time.Minute, "the token at "+a.Name, func() string {
				if !a.Answers() {
					return ""
				}
				_, _, err := a.API(token.SecretID).ACL().TokenReadSelf(nil)
				return textOf(err)
			})
		}
	}
	return token.SecretID
}

// SetDNSToken gives an agent the token with which it answers questions of DNS.
func (a *Agent) SetDNSToken(secret string) {
	a.t.Helper()
	_, err := a.API(a.Token).Agent().UpdateDNSToken(secret, nil)
	fatal.If(a.t, err)
}
