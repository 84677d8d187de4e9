package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// planted is a module in which every rule is broken once, and beside each breach
// something that is allowed.
var planted = map[string]string{
	"go.mod": "module " + module + "\n\ngo 1.26\n",

	"internal/limit/limit.go": `package limit
import ("errors"; "time")
const Second = time.Second
var ErrLimit = errors.New("limit")
`,
	"internal/limit/clock.go": `package limit
import clock "time"
func now() int64 { return clock.Now().UnixMicro() }
`,
	"internal/limit/ticker_plan9.go": `package limit
import . "time"
func wait() { go Sleep(1) }
`,
	"internal/limit/limit_test.go": `package limit
import ("os"; "testing"; "time")
func TestNow(t *testing.T) { _, _ = time.Now(), os.Args }
`,
	"internal/lease/lease.go": `package lease
import ("context"; _ "` + module + `/internal/limit"; _ "` + module + `/internal/telemetry"; _ "golang.org/x/sync/errgroup")
var Background = context.Background
`,
	"internal/rule/deep/deep.go": `package deep
import ("encoding/binary"; "reflect"; "sort")
var _, _, _ = binary.LittleEndian, reflect.DeepEqual, sort.Ints
`,
	"internal/rule/rule.go": `package rule
import "fmt"
var Sprint = fmt.Sprint
`,
	"internal/ruleset/rulefile/rulefile.go": `package rulefile
import (_ "fmt"; _ "go.yaml.in/yaml/v3"; _ "` + module + `/regional/config"; _ "` + module + `/test/kit")
`,
	"internal/ruleset/rulefile/rulefile_test.go": `package rulefile
import _ "` + module + `/test/kit"
`,
	"test/kit/kit.go": `package kit
import _ "github.com/redis/go-redis/v9"
`,
	"internal/telemetry/telemetry.go": `package telemetry
import _ "go.opentelemetry.io/otel/exporters/otlp"
`,
	"internal/engine/engine.go": `package engine
import (_ "net/http"; _ "` + module + `/internal/telemetry")
`,
	"internal/engine/memory/memory.go": `package memory
import _ "` + module + `/internal/service"
`,
	"regional/main.go": `package main
import (_ "github.com/prometheus/client_golang/prometheus/promhttp"; _ "` + module + `/internal/service")
func main() {}
`,
	"internal/service/service.go": `package service
import (_ "github.com/redis/go-redis/v9"; _ "github.com/prometheus/client_golang/prometheus/promhttp"; _ "go.opentelemetry.io/otel/sdk/trace"; _ "go.opentelemetry.io/otel/trace")
`,
	"internal/redis/redisstore/redisstore.go": `package redisstore
import (_ "github.com/redis/go-redis/v9"; _ "github.com/hashicorp/consul/api")
`,
	"internal/envoyrls/envoyrls.go": `package envoyrls
import (_ "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"; _ "github.com/redis/go-redis/v9"; _ "google.golang.org/grpc")
`,
	"regional/config/config.go": "package config\n",
	"regional/rlsless/rlsless.go": `package rlsless
import (_ "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"; _ "google.golang.org/grpc/codes")
`,
	"internal/consul/consul.go": `package consul
import _ "github.com/hashicorp/consul/api"
`,
	"internal/daemon/daemon.go": `package daemon
import _ "` + module + `/internal/redis/redisstore"
`,
	"global/main.go": `package main
import (_ "` + module + `/internal/redis/redisstore"; _ "` + module + `/internal/daemon"; _ "` + module + `/regional/config"; _ "go.opentelemetry.io/otel/exporters/otlp")
func main() {}
`,
	"cmd/weir/main.go": `package main
import _ "` + module + `/internal/ruleset/rulefile"
func main() {}
`,
	"wasmfilter/main.go": `package main
import (_ "encoding/json"; _ "github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"; _ "` + module + `/internal/rule")
func main() {}
`,
	"test/load/main.go": `package main
import (_ "` + module + `/internal/service"; _ "` + module + `/test/kit"; _ "github.com/redis/go-redis/v9")
func main() {}
`,
}

var wantComplaints = []string{
	"global imports internal/redis/redisstore: a program has the parts of a tier through internal/daemon",
	"global imports regional/config: programs are apart",
	"internal/lease imports context: a pure package does without",
	"internal/lease imports golang.org/x/sync/errgroup: a pure package imports the standard library only",
	"internal/lease imports internal/telemetry: a pure package imports pure packages only",
	"internal/limit/clock.go:3 uses time.Now",
	"internal/limit/ticker_plan9.go:1 imports time with a dot",
	"internal/limit/ticker_plan9.go:3 starts a goroutine",
	"internal/rule depends on fmt: it makes the filter large",
	"internal/rule/deep imports reflect: a pure package does without",
	"internal/ruleset/rulefile imports regional/config: programs are apart",
	"internal/ruleset/rulefile imports test/kit: what is built into programs does without",
	"internal/engine depends on net/http: a contract knows no transport",
	"internal/engine/memory depends on internal/service: a contract knows no transport",
	"internal/service imports github.com/prometheus/client_golang/prometheus/promhttp: only internal/telemetry and main may",
	"internal/service imports go.opentelemetry.io/otel/sdk/trace: only internal/telemetry may",
	"internal/service imports github.com/redis/go-redis/v9: only internal/redis may",
	"internal/envoyrls imports github.com/redis/go-redis/v9: only internal/redis may",
	"regional/rlsless imports github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3: only internal/envoyrls may",
	"regional/rlsless imports google.golang.org/grpc/codes: only internal/envoyrls may",
	"internal/redis/redisstore imports github.com/hashicorp/consul/api: only internal/consul and internal/bootstrap/acl may",
}

// TestFindsWhatIsPlanted checks the checker: it finds each breach, and nothing else.
func TestFindsWhatIsPlanted(t *testing.T) {
	root := plant(t)
	complaints := mustCheck(t, mustLoad(t, root, "./...", "GOPROXY=off", "GOFLAGS=-mod=mod"))
	compare(t, complaints, wantComplaints)
}

func TestFindsWhatIsPlantedInTheFilter(t *testing.T) {
	packages := mustLoad(t, plant(t), "./wasmfilter", append(forFilter, "GOPROXY=off", "GOFLAGS=-mod=mod")...)
	compare(t, checkFilter(packages), []string{
		"the filter contains encoding/json, through " + module + "/wasmfilter",
		"the filter contains fmt, through encoding/json, " + module + "/internal/rule",
		"the filter contains os, through fmt",
	})
}

// compare wants one complaint with each prefix.
func compare(t *testing.T, complaints, prefixes []string) {
	t.Helper()
	slices.Sort(complaints)
	for _, c := range complaints {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c, p) }) {
			t.Errorf("complains without reason: %s", c)
		}
	}
	for _, p := range prefixes {
		if !slices.ContainsFunc(complaints, func(c string) bool { return strings.HasPrefix(c, p) }) {
			t.Errorf("does not find: %s", p)
		}
	}
}

func plant(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range planted {
		path := filepath.Join(root, name)
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}
