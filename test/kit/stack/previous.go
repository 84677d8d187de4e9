package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Previous is what the release before this one runs.
type Previous struct {
	Module string // the filter's code
	Region string // weir-regional
}

// BuildPrevious returns the programs of the commit that a file names: the release that a
// fleet may still run when this one comes. They are built once and kept in .tools/.
func BuildPrevious(t testing.TB, file string) Previous {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(text))
	root := proc.Root(t)
	dir := filepath.Join(root, ".tools", "previous-"+commit)
	p := Previous{Module: filepath.Join(dir, "weir.wasm"), Region: filepath.Join(dir, "weir-regional")}
	if _, err := os.Stat(dir); err == nil {
		return p
	}
	if err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Fatalf("the previous release, commit %s of %s, is not in this clone (%v); get it with: git fetch --unshallow, or git fetch --depth=1 origin %[1]s", commit, file, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "previous-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	source, built := filepath.Join(work, "source"), filepath.Join(work, "built")
	const build = `set -e; mkdir "$3" "$4"; git -C "$1" archive "$2" | tar -x -C "$3"; cd "$3"
GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w' -o "$4/weir.wasm" ./wasmfilter
go build -trimpath -buildvcs=false -o "$4/weir-regional" ./regional`
	if out, err := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", build, "build", root, commit, source, built).CombinedOutput(); err != nil {
		t.Fatalf("building the previous release: %v\n%s", err, out)
	}
	if err := os.Rename(built, dir); err != nil && !os.IsExist(err) {
		t.Fatal(fmt.Errorf("keeping the previous release: %w", err))
	}
	return p
}
