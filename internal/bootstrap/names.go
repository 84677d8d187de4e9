package bootstrap

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/consul/policies"
)

const aggregator = "aggregator" // directory of the aggregators, and name of their user of Redis

// roles are the directories of a region.
var roles = []policies.Role{policies.PoP, policies.Server, policies.Service}

// regionName fits DNS, Consul's datacenters and the names of resources that Terraform makes.
var regionName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

func checkNames(regions []string) error {
	for i, r := range regions {
		switch {
		case !regionName.MatchString(r):
			return fmt.Errorf("--regions has %q; a name has 1 to 20 of a-z, 0-9 and -, and begins with a letter, such as eu", r)
		case r == aggregator || r == redisDirectory:
			return fmt.Errorf("--regions has %s, which is the name of another directory; name the region by where it is, such as eu", r)
		case slices.Contains(regions[:i], r):
			return fmt.Errorf("--regions has %s twice", r)
		}
		for _, role := range append([]policies.Role{policies.Aggregators}, roles...) {
			for _, other := range regions {
				if strings.HasPrefix(other+"-", r+"-"+string(role)+"-") {
					return fmt.Errorf("--regions has %s and %s: agents of %[1]s could change nodes of %[2]s, whose names begin like theirs; choose another name", r, other)
				}
			}
		}
	}
	return nil
}

// leaf is a certificate: the path of its file, and for whom it is.
type leaf struct {
	path  string
	names []string
}

// consuls reports whether Consul's authority signs it, and not Weir's.
func (l leaf) consuls() bool { return strings.HasSuffix(l.path, "/consul-cert.pem") }

// leaves are all certificates.
func (s *State) leaves() []leaf {
	here := []string{"localhost", "127.0.0.1"}
	agent := func(dir, kind, region string) leaf {
		return leaf{dir + "/consul-cert.pem", append([]string{kind + "." + region + ".consul"}, here...)}
	}
	all := []leaf{{aggregator + "/cert.pem", append([]string{"weir-global"}, here...)}, agent(aggregator, "client", s.Home)}
	for _, r := range s.Regions {
		all = append(all,
			leaf{r + "/pop/cert.pem", []string{"weir://pop/" + r}},
			leaf{r + "/service/cert.pem", append([]string{"weir-regional", "weir://region/" + r}, here...)},
			agent(r+"/pop", "client", r), agent(r+"/service", "client", r), agent(r+"/consul", "server", r))
	}
	return all
}

// management is the token that may do everything.
const management = "management"

// tokens are all tokens but that of management, with what each may do.
func (s *State) tokens() []namedRules {
	all := []namedRules{
		{"aggregator", policies.Aggregator()},
		{"aggregator-agent", policies.Agent(s.Home, policies.Aggregators)},
		{"replication", policies.Replication()},
		{"rules", policies.People()},
	}
	for _, r := range s.Regions {
		all = append(all, namedRules{r + "-replica", policies.Regional(r)}, namedRules{r + "-dns", policies.DNS(r)})
		for _, role := range roles {
			all = append(all, namedRules{agentToken(r, role), policies.Agent(r, role)})
		}
	}
	return all
}

type namedRules struct{ name, rules string }

func agentToken(region string, role policies.Role) string {
	return region + "-" + string(role) + "-agent"
}
