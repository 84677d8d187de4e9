package discovery

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/test/kit/consul"
	"github.com/weirlimit/weir/test/kit/proc"
)

const (
	// management is the token of the operator of Consul.
	management = "11111111-2222-3333-4444-555555555555"
	withACL    = `acl { enabled = true, default_policy = "deny", tokens { initial_management = "` + management + `", agent = "` + management + `" } }`
	// leastPolicy is what docs/operations.md states that a replica needs.
	leastPolicy = `
service "weir-regional" { policy = "write" }
service "weir-global" { policy = "read" }
node_prefix "" { policy = "read" }
`
)

// A replica registers and watches with the token that the environment names, and with no
// more rights than the documents state. Without a token it runs all the same.
func TestToken(t *testing.T) {
	dir := proc.LogDir(t)
	c := consul.New(t, dir, "-config-file", proc.WriteFile(t, filepath.Join(dir, "acl.hcl"), withACL))
	c.Start()
	operator, err := api.NewClient(&api.Config{Address: c.Addr, Token: management})
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ SecretID string }
	proc.Await(t, time.Minute, "a token of the least policy", func() string {
		_, _, _ = operator.ACL().PolicyCreate(&api.ACLPolicy{Name: "replica", Rules: leastPolicy}, nil) // without it there is no token
		_, err := operator.Raw().Write("/v1/acl/token", map[string]any{"Policies": []map[string]string{{"Name": "replica"}}}, &token, nil)
		if err != nil {
			return err.Error()
		}
		return ""
	})

	stranger, log := newAgent(t, c.Addr)
	startReplica(t, stranger, "127.0.0.1", 8081)
	log.await(t, "register", "away")

	t.Setenv("CONSUL_HTTP_TOKEN_FILE", proc.WriteFile(t, filepath.Join(dir, "token"), token.SecretID+"\n"))
	a, log := newAgent(t, c.Addr)
	l, none := new(list), new(list)
	run(t, a.Watch("replicas", service, "eu", l.set).Run)
	run(t, a.Watch("aggregators", "weir-global", "", none.set).Run)
	r := startReplica(t, a, "127.0.0.1", 8080)
	l.await(t, "127.0.0.1:8080")
	none.await(t, "")
	log.await(t, "aggregators", "back")
	r.stop()
	l.await(t, "")
}
