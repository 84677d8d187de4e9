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
	"internal/distinct", "internal/limit", "internal/lease", "internal/fair", "internal/reserve", "internal/rule", "internal/shed", "internal/version", "internal/wire",
	"wasmfilter/edge",
}

// clock are the functions of package time that read a clock or wait for one. The
// rest of that package is arithmetic.
var clock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// programs are the trees of which none may import from another, nor anything in
// internal from any. What is pure may be imported.
var programs = []string{"wasmfilter", "cmd/weir-regional", "cmd/weir-global", "cmd/weir"}

// parts are the packages, with all below them, that a tier is made of. Programs use them
// through internal/daemon: they hold only main, their settings and what is theirs alone.
var parts = []string{
	"internal/leasecache", "internal/engine/memory", "internal/engine/table", "internal/redis",
	"internal/statefile", "internal/ruleset/follow", "internal/ruleset/versions/local", "internal/admin", "internal/upstream/client", "internal/consul",
}

// open are packages of parts that programs use all the same: what callers of the admin API need.
var open = []string{"internal/admin/access", "internal/admin/cli"}

// forbidden is what packages do without: as an import, or deep, even through others.
var forbidden = []struct {
	in   []string // with all below them
	what []string // PATH, or PATH/... with all below it
	deep bool
	why  string
}{
	{pure, []string{"context", "os", "net", "net/http", "log/...", "math/rand/...", "crypto/rand", "reflect"}, false,
		"a pure package takes what it needs as an argument, and reflect keeps the linker from leaving out what is unused"},
	{pure, []string{"fmt", "encoding/json"}, true, "it makes the filter large; use strconv, errors.New or a few lines by hand"},
	{[]string{"internal/engine"}, []string{"net/http", "connectrpc.com/...", "google.golang.org/protobuf/..."}, false, noTransport},
	{[]string{"internal/engine"}, []string{"internal/service/...", "api/quota/v1/..."}, true, noTransport},
	{[]string{"cmd/weir-regional", "cmd/weir-global"}, []string{"internal/bootstrap/...", "github.com/aws/..."}, true, "weir admin bootstrap is in no tier"},
	{programs, []string{"testing/...", "test/..."}, true, "what is built into programs does without what tests are made of"},
}

const noTransport = "a contract knows no transport"

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

func matches(path string, what []string) bool {
	return slices.ContainsFunc(what, func(w string) bool {
		all, below := strings.CutSuffix(w, "/...")
		return path == w || below && within(path, []string{all})
	})
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
