package terraform

import (
	"path/filepath"
	"regexp"
	"testing"
)

var edge = regexp.MustCompile(`"\[root\] ([^"]+?)(?: \(expand\))?" -> "\[root\] ([^"]+?)(?: \(expand\))?"`)

// after returns whether one resource of a graph is made after another one.
func after(graph map[string][]string, one, other string, seen map[string]bool) bool {
	for _, next := range graph[one] {
		if next == other {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if after(graph, next, other, seen) {
				return true
			}
		}
	}
	return false
}

// What AWS demands in an order that no value shows, and what a machine needs at its first boot,
// is there before: whoever uses the network waits for its routes. Without that an apply fails at
// times, or leaves machines without programs.
func TestOrder(t *testing.T) {
	dir := filepath.Join(tree(t), "modules", "region", "modules", "network")
	must(t, dir, "init")
	graph := map[string][]string{}
	for _, e := range edge.FindAllStringSubmatch(must(t, dir, "graph", "-type=plan"), -1) {
		graph[e[1]] = append(graph[e[1]], e[2])
	}
	for resource, needs := range map[string][]string{
		"output.network": {"aws_route.internet", "aws_route_table_association.public", "aws_route.nat",
			"aws_route_table_association.private", "aws_vpc_endpoint.s3"},
		"aws_eip.nat":          {"aws_internet_gateway.this"},
		"aws_nat_gateway.this": {"aws_internet_gateway.this"},
	} {
		for _, before := range needs {
			if !after(graph, resource, before, map[string]bool{}) {
				t.Errorf("%s may be there before %s", resource, before)
			}
		}
	}
}
