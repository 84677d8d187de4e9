package terraform

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var edge = regexp.MustCompile(`"\[root\] ([^"]+?)(?: \(expand\))?" -> "\[root\] ([^"]+?)(?: \(expand\))?"`)

// after reports whether one resource waits for another one, through others too.
func after(graph map[string][]string, one, other string, seen map[string]bool) bool {
	seen[one] = true
	return slices.ContainsFunc(graph[one], func(next string) bool {
		return next == other || !seen[next] && after(graph, next, other, seen)
	})
}

// ordered plans a directory and fails where a resource may be made or changed before what has to come before it.
func ordered(t *testing.T, dir string, needs map[string][]string) {
	t.Helper()
	must(t, dir, "init")
	graph := map[string][]string{}
	for _, e := range edge.FindAllStringSubmatch(must(t, dir, "graph", "-type=plan"), -1) {
		graph[e[1]] = append(graph[e[1]], e[2])
	}
	for resource, all := range needs {
		for _, before := range all {
			if !after(graph, resource, before, map[string]bool{}) {
				t.Errorf("%s may be there before %s", resource, before)
			}
		}
	}
}

// What AWS demands in an order that no value shows, and what a machine needs at its first boot,
// is there before: whoever uses the network waits for its routes. Without that an apply fails at
// times, or leaves machines without programs.
func TestOrder(t *testing.T) {
	ordered(t, filepath.Join(tree(t), "modules", "region", "modules", "network"), map[string][]string{
		"output.network": {"aws_route.internet", "aws_route_table_association.public", "aws_route.nat",
			"aws_route_table_association.private", "aws_vpc_endpoint.s3"},
		"aws_eip.nat":          {"aws_internet_gateway.this"},
		"aws_nat_gateway.this": {"aws_internet_gateway.this"},
	})
	ordered(t, filepath.Join(tree(t), "modules", "region", "modules", "service"), map[string][]string{
		"aws_ecs_service.this": {"aws_iam_role_policy.execution", "aws_iam_role_policy.task", "aws_vpc_security_group_egress_rule.redis"},
	})
}

// One apply updates in the order that docs/install.md demands: aggregators, the replicas of each region, its PoPs.
func TestOrderOfUpdates(t *testing.T) {
	const service = ".module.service.aws_ecs_service.this"
	needs := map[string][]string{}
	for _, region := range []string{"module.eu", "module.us", "module.ap"} {
		needs[region+service] = []string{"module.aggregator" + service}
		needs[region+".module.edge.aws_autoscaling_group.pop"] = []string{"module.aggregator" + service, region + service}
	}
	ordered(t, example(t, "three-regions", nil), needs)
}
