package envoy

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Variant is a build of the filter that only tests run.
type Variant struct {
	name  string // of its directory in bin/
	flags []string
	env   []string
}

// The variants.
var (
	Panicking  = Variant{name: "panics", flags: []string{"-tags=panics"}}            // a request can have each hook panic
	CgoChecked = Variant{name: "cgocheck2", env: []string{"GOEXPERIMENT=cgocheck2"}} // native: ends where C gets a pointer to a pointer of Go
)

// building is held while a variant is built.
var building sync.Mutex

// SetVariant has the Envoy run a variant, and builds it: go build knows what is out of date.
func (b *Bootstrap) SetVariant(v Variant) {
	b.t.Helper()
	file := filepath.Join(proc.Root(b.t), "bin", v.name, "weir.wasm")
	b.SetModule(file)
	env, source := []string{"GOOS=wasip1", "GOARCH=wasm"}, "./wasmfilter"
	if b.native {
		env, source, file = []string{"CGO_ENABLED=1"}, "./wasmfilter/native", filepath.Join(filepath.Dir(file), "weir.so")
	}
	building.Lock()
	defer building.Unlock()
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file}, v.flags...)
	c := exec.CommandContext(b.t.Context(), "go", append(args, source)...)
	c.Dir, c.Env = proc.Root(b.t), append(append(os.Environ(), env...), v.env...)
	proc.Run(b.t, c)
	_ = fatal.Get(os.Stat(file))(b.t)
}
