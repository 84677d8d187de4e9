// Package policies has what each token of Consul may do: the text of the policies in this directory, in which
// REGION and ROLE stand for a region and for what runs on a node. Regions are names that rule.IsRegion takes.
package policies

import (
	"embed"
	"strings"
)

// Role is what runs on a node. Names of nodes begin with region and role, such as eu-pop-, so that an agent can
// change the nodes of its own region and role only.
type Role string

// The roles.
const (
	PoP         Role = "pop"
	Service     Role = "service"    // a replica of weir-regional
	Aggregators Role = "aggregator" // replicas of weir-global
	Server      Role = "consul"     // a server of Consul
)

//go:embed *.hcl
var files embed.FS

// Regional is the policy of the replicas of a region.
func Regional(region string) string { return text("weir-regional", region, "") }

// Aggregator is the policy of weir-global.
func Aggregator() string { return text("weir-global", "", "") }

// People is the policy of whoever applies rules.
func People() string { return text("weir-rules", "", "") }

// Agent is the policy of the agents of a region beside a role, for acl.tokens.agent.
func Agent(region string, role Role) string { return text("agent", region, role) }

// DNS is the policy of agents that answer questions of DNS for the PoPs of a region, for acl.tokens.dns.
func DNS(region string) string { return text("dns", region, "") }

// Replication is the policy of the servers of other regions than the primary, for acl.tokens.replication.
func Replication() string { return text("replication", "", "") }

// text is a policy for a region and a role.
func text(name, region string, role Role) string {
	template, err := files.ReadFile(name + ".hcl")
	if err != nil {
		panic(err) // the names are those of the files
	}
	return strings.NewReplacer("REGION", region, "ROLE", string(role)).Replace(string(template))
}
