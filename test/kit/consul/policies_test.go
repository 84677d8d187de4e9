package consul

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// policy is the text of one of the policies of the repository.
func policy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "consul", "policies", name+".hcl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// With the policies for agents and for replication a region's server keeps its node up to date, and copies
// the tokens of the primary. Without one of the rights it is refused.
func TestPoliciesOfServers(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	primary := StartDatacenter(t, Config{Dir: dir, Name: "us", ACL: true})
	agent, replication := primary.NewToken(policy(t, "agent")), primary.NewToken(policy(t, "replication"))
	less := primary.NewToken(strings.Replace(policy(t, "agent"), `node_prefix "" { policy = "write" }`, "", 1))
	reads := primary.NewToken(strings.Replace(policy(t, "replication"), `acl = "write"`, `acl = "read"`, 1))
	server := func(name, agent string) *Agent {
		tokens := map[string]string{"agent": agent, "replication": replication}
		return StartDatacenter(t, Config{Dir: dir, Name: name, Primary: primary, Tokens: tokens}).Servers[0]
	}
	eu, ap := server("eu", agent), server("ap", less)
	proc.Await(t, time.Minute, "eu registers its addresses", func() string {
		if got, err := eu.wanAddress(); err != nil || got == "" {
			return textOf(err) + " no address"
		}
		return ""
	})
	proc.Await(t, time.Minute, "eu copies the tokens", func() string {
		var got struct {
			ReplicatedTokenIndex uint64
			LastErrorMessage     string
		}
		if err := eu.read("/v1/acl/replication", &got); err != nil || got.ReplicatedTokenIndex == 0 {
			return textOf(err) + " " + got.LastErrorMessage
		}
		return ""
	})
	proc.Eventually(t, time.Minute, "ap is refused its node", func() bool { return strings.Contains(ap.Log(), "Node info update blocked by ACLs") })
	if got, err := ap.wanAddress(); err != nil || got != "" {
		t.Errorf("ap registers its address %q, %v", got, err)
	}
	for token, copies := range map[string]bool{replication: true, reads: false} {
		var tokens []struct{ SecretID string }
		if err := primary.Leader().call("GET", "/v1/acl/tokens", token, nil, &tokens); err != nil || len(tokens) == 0 {
			t.Fatalf("%+v, %v", tokens, err)
		}
		if got := tokens[0].SecretID != "<hidden>"; got != copies {
			t.Errorf("a token shows the secrets of others: %t, want %t", got, copies)
		}
	}
}

// wanAddress is the one that the agent has registered for its node; empty: none.
func (a *Agent) wanAddress() (string, error) {
	var got struct {
		Node *struct{ TaggedAddresses map[string]string }
	}
	if err := a.read("/v1/catalog/node/"+a.Name, &got); err != nil || got.Node == nil {
		return "", err
	}
	return got.Node.TaggedAddresses["wan"], nil
}
