package consul

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Three servers elect another leader when theirs is killed, and it comes back as a follower.
// A second datacenter answers for the first, and both have its tokens; all with ACL and TLS.
func TestDatacenters(t *testing.T) {
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := proc.LogDir(t)
	began := time.Now()
	lap := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(100*time.Millisecond)) }
	primary := StartDatacenter(t, Config{Dir: dir, Servers: 3, ACL: true, TLS: authority})
	lap("three servers")
	second := StartDatacenter(t, Config{Dir: dir, Name: "dc2", Primary: primary})
	lap("a second datacenter")
	client := second.StartClient()
	lap("a client there")
	secret := primary.NewToken(`service_prefix "" { policy = "read" }`)
	lap("a token")
	if err := client.call("GET", "/v1/catalog/services?dc=dc1", secret, nil, nil); err != nil {
		t.Errorf("the token in the other datacenter: %v", err)
	}
	if err := client.call("PUT", "/v1/kv/a", secret, "b", nil); err == nil {
		t.Error("the token may write to the store")
	}

	old := primary.Leader()
	old.Kill()
	now := primary.Leader()
	lap("another leader")
	if now == old {
		t.Errorf("the leader is still %s", old.Name)
	}
	old.Start()
	lap("the old one again")
	primary.Leader()
	if err := client.read("/v1/catalog/nodes?dc=dc1", nil); err != nil {
		t.Error(err)
	}
}
