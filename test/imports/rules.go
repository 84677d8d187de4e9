package imports

import (
	"slices"
	"strings"
)

// module is the path of the module that the rules are about. Packages in rules
// and complaints are written without it.
const module = "github.com/weirlimit/weir"

// pure are the packages, with all below them, that decide and touch nothing. They
// import the standard library and each other only, and are compiled into the filter.
var pure = []string{
	"internal/limit", "internal/lease", "internal/fair", "internal/reserve", "internal/rule", "internal/shed", "internal/version", "internal/wire",
	"wasmfilter/edge",
}

// impure is what a pure package must not import: what reaches out, and reflect,
// which keeps the linker from leaving out what is unused.
var impure = []string{
	"context", "os", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "reflect",
}

// heavy must not even be among the dependencies of a pure package.
var heavy = []string{"fmt", "encoding/json"}

// clock are the functions of package time that read a clock or wait for one. The
// rest of that package is arithmetic.
var clock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// programs are the trees of which none may import from another, nor anything in
// internal from any. What is pure may be imported.
var programs = []string{"wasmfilter", "regional", "global", "cmd/weir"}

// parts are the packages, with all below them, that a tier is made of. Programs use them
// through internal/daemon: they hold only main, their settings and what is theirs alone.
var parts = []string{
	"internal/leasecache", "internal/engine/memory", "internal/engine/table", "internal/redis",
	"internal/statefile", "internal/ruleset/follow", "internal/ruleset/versions/local", "internal/admin", "internal/upstream/client", "internal/consul",
}

// open are packages of parts that programs use all the same: what callers of the admin API need.
var open = []string{"internal/admin/access", "internal/admin/cli", "internal/admin/client", "internal/admin/v1"}

// contract are the packages, with all below them, that know no transport.
var contract = []string{"internal/engine"}

// transport is what a contract does not import, with all below it; the packages of this
// repository not even through others. What others are made of does not count: metrics
// bring most of it with them.
var transport = []string{"internal/service", "internal/quotapb", "net/http", "connectrpc.com", "google.golang.org/protobuf"}

// confined are imports, with all below them, that have one home.
var confined = []struct {
	imports string
	home    []string // packages with all below them; "main" is every program's main package
}{
	{"github.com/danielgtaylor/huma", []string{"internal/admin/api"}},
	{"github.com/redis", []string{"internal/redis"}},
	{"google.golang.org/grpc", []string{"internal/envoyrls"}},
	{"github.com/envoyproxy/go-control-plane", []string{"internal/envoyrls"}},
	{"github.com/hashicorp/consul", []string{"internal/consul", "internal/bootstrap/acl"}},
	{"github.com/aws", []string{"internal/bootstrap/aws"}},
	{"go.opentelemetry.io/otel/exporters", []string{"internal/telemetry", "main"}},
	{"go.opentelemetry.io/contrib/exporters", []string{"internal/telemetry", "main"}},
	{"go.opentelemetry.io/otel/sdk", []string{"internal/telemetry"}},
	{"go.opentelemetry.io/contrib/bridges", []string{"internal/telemetry"}},
	{"github.com/prometheus/client_golang/prometheus/promhttp", []string{"internal/telemetry", "main"}},
	{"github.com/proxy-wasm", []string{"wasmfilter/filter", "main"}},
}

// absent is what must not be in the filter at all, with all below it: each would
// make it larger by a tenth or more. What is in it, is listed in testdata/filter.txt.
var absent = []string{
	"context", "os", "net", "log", "fmt", "encoding/json", "crypto",
	"google.golang.org/protobuf", "connectrpc.com", "go.yaml.in",
}

// within reports whether a package is one of trees or below one.
func within(path string, trees []string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return path == tree || strings.HasPrefix(path, tree+"/")
	})
}

// tree is the one of trees that a package lies in; empty: none.
func tree(path string, trees []string) string {
	for _, t := range trees {
		if within(path, []string{t}) {
			return t
		}
	}
	return ""
}
