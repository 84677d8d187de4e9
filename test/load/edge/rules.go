//go:build linux

package edge

import "strings"

// The rules of the benchmark. Every row has rules of its own, which match by path,
// so that one PoP serves several rows and none finds the leases of another.
//
// What is measured in rounds has limits that it cannot reach and leases that
// outlast the rests between the rounds: those rows are about a decision, not about
// fetching leases. The whole path has the limit and the leases of everyday use.

const (
	byUser    = "key: [ { header: x-user-id } ]"
	byAddress = "key: [ client_ip ]"
	inTotal   = "key: [ { const: total } ]"

	unreachable = "limit: 1000000000/1h\n    algorithm: token_bucket"
	lasting     = "lease: { ttl: 10m }"
	onlyOnce    = "limit: 1/1d"
	everyday    = "limit: 1000/1m\n    algorithm: token_bucket"
)

var (
	oneRule = rules(
		rule("one", "/one/", byUser, unreachable, lasting),
		rule("one-hot", "/one-hot/", byUser, unreachable, lasting),
	)
	aloneRules = rules(
		rule("one", "/one/", byUser, unreachable, lasting),
		rule("hot", "/hot/", byUser, unreachable, lasting),
		rule("first", "/first/", byUser, unreachable, lasting),
		rule("rejected", "/rejected/", byUser, onlyOnce, "algorithm: fixed_window"),
	)
	threeRules = rules(
		rule("user", "/three/", byUser, unreachable, lasting),
		rule("address", "/three/", byAddress, unreachable, lasting),
		rule("total", "/three/", inTotal, unreachable, lasting),
		rule("user-hot", "/three-hot/", byUser, unreachable, lasting),
		rule("address-hot", "/three-hot/", byAddress, unreachable, lasting),
		rule("total-hot", "/three-hot/", inTotal, unreachable, lasting),
	)
	pathRules = rules(
		rule("uniform", "/uniform/", byUser, everyday),
		rule("zipf", "/zipf/", byUser, everyday),
	)
)

// rule is a rule for the requests whose path begins with prefix.
func rule(name, prefix string, fields ...string) string {
	return "  - name: " + name + "\n" +
		"    match: { path: { prefix: " + prefix + " } }\n" +
		"    " + strings.Join(fields, "\n    ") + "\n"
}

func rules(list ...string) string { return "rules:\n" + strings.Join(list, "") }
