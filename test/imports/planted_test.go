package imports

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// planted is a module in which every rule is broken once, and beside each breach something that is allowed: the imports of
// each package, with MODULE for the path of this module, and what its file has below them.
var planted = map[string]string{
	"internal/limit":              `"errors"; clock "time"|const Second = clock.Second; var E = errors.ErrUnsupported; var now = clock.Now`,
	"internal/limit/ticker_plan9": `. "time"|func wait() { go Sleep(1) }`,
	"internal/lease":              `_ "context"; _ "MODULE/internal/limit"; _ "MODULE/internal/telemetry"; _ "golang.org/x/sync/errgroup"`,
	"internal/rule":               `_ "fmt"`,
	"internal/telemetry":          `_ "go.opentelemetry.io/otel/exporters/otlp"`,
	"internal/engine":             `_ "net/http"; _ "MODULE/internal/telemetry"`,
	"internal/engine/memory":      `_ "MODULE/internal/service"`,
	"internal/service":            `_ "github.com/redis/go-redis/v9"; _ "go.opentelemetry.io/otel/trace"`,
	"internal/redis/redisstore":   `_ "github.com/redis/go-redis/v9"`,
	"internal/bootstrap":          ``,
	"internal/ruleset/rulefile":   `_ "MODULE/cmd/weir-regional/config"`,
	"internal/ruleset/ruletests":  `_ "MODULE/wasmfilter/filter"`,
	"internal/daemon":             `_ "MODULE/internal/redis/redisstore"`,
	"cmd/weir-regional/config":    `_ "MODULE/internal/limit"`,
	"cmd/weir-global/config":      `_ "MODULE/internal/redis/redisstore"; _ "MODULE/internal/daemon"; _ "MODULE/internal/bootstrap"; _ "testing"`,
	"wasmfilter/filter":           `_ "MODULE/internal/rule"; _ "github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"`,
	"test/kit":                    `_ "MODULE/internal/service"; _ "github.com/redis/go-redis/v9"`,
	"cmd/weir":                    `_ "MODULE/test/kit"`,
}

// complaints are those about what is planted, as they begin.
var complaints = []string{
	"cmd/weir needs test/kit: what is built into programs does without",
	"cmd/weir-global/config imports internal/redis/redisstore: a program has the parts of a tier through internal/daemon",
	"cmd/weir-global/config needs internal/bootstrap: weir admin bootstrap is in no tier",
	"cmd/weir-global/config needs testing: what is built into programs does without",
	"internal/engine needs net/http: a contract knows no transport",
	"internal/engine/memory needs internal/service: a contract knows no transport",
	"internal/lease imports golang.org/x/sync/errgroup: a pure package imports the standard library only",
	"internal/lease imports internal/telemetry: a pure package imports pure packages only",
	"internal/lease needs context: a pure package takes what it needs",
	"internal/limit/file.go:4 uses time.Now",
	"internal/limit/ticker_plan9.go:1 imports time with a dot",
	"internal/limit/ticker_plan9.go:4 starts a goroutine",
	"internal/rule needs fmt: it makes the filter large",
	"internal/ruleset/rulefile imports cmd/weir-regional/config: programs are apart",
	"internal/service imports github.com/redis/go-redis/v9: only internal/redis may",
}

// TestFindsWhatIsPlanted checks the checker: it finds each breach, and nothing else.
func TestFindsWhatIsPlanted(t *testing.T) {
	root := t.TempDir()
	proc.WriteFile(t, filepath.Join(root, "go.mod"), "module "+module+"\n\ngo 1.26\n")
	for dir, text := range planted {
		file := "file"
		if strings.HasSuffix(dir, "_plan9") {
			dir, file = filepath.Split(dir)
		}
		imports, rest, _ := strings.Cut(strings.ReplaceAll(text, "MODULE", module), "|")
		proc.WriteFile(t, filepath.Join(root, dir, file+".go"), "package planted\n\nimport ("+imports+")\n"+rest+"\n")
	}
	got := fatal.Get(check(fatal.Get(load(root, "./...", "GOPROXY=off", "GOFLAGS=-mod=mod"))(t)))(t)
	slices.Sort(got)
	if !slices.EqualFunc(got, complaints, strings.HasPrefix) {
		t.Errorf("complains of\n%s\nwant what begins with\n%s", strings.Join(got, "\n"), strings.Join(complaints, "\n"))
	}
}
