package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standIn is a small repository and what was built of it, in a folder of its own.
type standIn struct {
	release
	built, dir string
}

// newStandIn is a git repository with files that are committed and others. Neither the umask nor the time of its files may
// be in a release, nor the order in which they are written.
func newStandIn(t *testing.T) *standIn {
	t.Helper()
	root := t.TempDir()
	s := &standIn{built: filepath.Join(root, "built"), dir: filepath.Join(root, "dist"), release: release{
		root: filepath.Join(root, "tree"), version: "1.2.3", commit: strings.Repeat("ab", 20), time: time.Unix(1700000000, 0).UTC(), goes: "go1.26.8",
	}}
	defer syscall.Umask(syscall.Umask(0o077))
	files := map[string]string{
		"tree/LICENSE": "free", "tree/envoy/pop.yaml": "pop", "tree/envoy/README.md": "about", "tree/envoy/run.sh": "#!run", "tree/envoy/generate/compose.yaml": "made of",
		"tree/terraform/modules/region/main.tf": "region", "tree/terraform/modules/region/start.sh": "#!start",
		"tree/terraform/README.md":     "modules",
		"tree/deploy/chart/Chart.yaml": "name: weir", "tree/alerts/edge.yaml": "alerts",
	}
	for _, name := range []string{"terraform/modules/region/.terraform.lock.hcl", "terraform/modules/region/plan.out", "terraform/terraform.tfvars", "envoy/mine.yaml", "deploy/chart/mine.yaml"} {
		files["tree/"+name] = notCommitted
	}
	for _, p := range platforms {
		for _, program := range p.programs {
			files["built/"+p.String()+"/"+program] = "#!" + program + " for " + p.String()
			files["built/"+p.String()+"/"+program+".cdx.json"] = "{}"
		}
	}
	for name, text := range files { // in another order each time
		mode := os.FileMode(0o666)
		if strings.HasPrefix(text, "#!") && filepath.Base(name) != filter && filepath.Base(name) != native {
			mode = 0o777
		}
		path := filepath.Join(root, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), mode)))
	}
	link := filepath.Join(s.root, "deploy/chart/alerts/edge.yaml")
	must(t, errors.Join(os.Mkdir(filepath.Dir(link), 0o777), os.Symlink("../../../alerts/edge.yaml", link)))
	add := []string{"add", "deploy/chart/alerts"}
	for name, text := range files {
		if inTree, found := strings.CutPrefix(name, "tree/"); found && text != notCommitted {
			add = append(add, inTree)
		}
	}
	git(t, s.root, "init", "--quiet")
	git(t, s.root, add...)
	return s
}

const notCommitted = "not committed"

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@weir.example"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

func (s *standIn) mustPack(t *testing.T) {
	t.Helper()
	must(t, s.pack(s.built, s.dir))
}

// must ends a test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is in the archives: of the sources what git has, and nothing beside it.
func TestArchives(t *testing.T) {
	s := newStandIn(t)
	s.mustPack(t)
	for name, want := range map[string][]string{
		"weir_1.2.3_linux_amd64.tar.gz": {
			"weir_1.2.3_linux_amd64/LICENSE 644 free", "weir_1.2.3_linux_amd64/README.md 644 # Weir 1.2.3",
			"weir_1.2.3_linux_amd64/bin/weir 755 #!weir for linux_amd64", "weir_1.2.3_linux_amd64/bin/weir-global 755 #!weir-global for linux_amd64",
			"weir_1.2.3_linux_amd64/bin/weir-regional 755 #!weir-regional for linux_amd64", "weir_1.2.3_linux_amd64/bin/weir.so 644 #!weir.so for linux_amd64",
			"weir_1.2.3_linux_amd64/bin/weir.wasm 644 #!weir.wasm for wasip1_wasm",
			"weir_1.2.3_linux_amd64/envoy/README.md 644 about", "weir_1.2.3_linux_amd64/envoy/pop.yaml 644 pop", "weir_1.2.3_linux_amd64/envoy/run.sh 755 #!run",
		},
		"weir_1.2.3_darwin_arm64.tar.gz": {"weir_1.2.3_darwin_arm64/LICENSE 644 free", "weir_1.2.3_darwin_arm64/bin/weir 755 #!weir for darwin_arm64"},
		"weir-terraform_1.2.3.tar.gz": {
			"weir-terraform_1.2.3/README.md 644 modules", "weir-terraform_1.2.3/modules/region/main.tf 644 region", "weir-terraform_1.2.3/modules/region/start.sh 755 #!start",
		},
		"weir-1.2.3.tgz": {"weir/Chart.yaml 644 name: weir", "weir/alerts/edge.yaml 644 alerts"},
	} {
		if got := listed(t, filepath.Join(s.dir, name)); !slices.Equal(got, want) {
			t.Errorf("%s has\n%q, want\n%q", name, got, want)
		}
	}
}

// listed are name, mode and first line of the files of an archive, which have no other owner than root.
func listed(t *testing.T, file string) (all []string) {
	t.Helper()
	archive, err := os.ReadFile(file)
	must(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	if !unzipped.ModTime.IsZero() || unzipped.Name != "" {
		t.Errorf("%s has the time %v and the name %q in its header", file, unzipped.ModTime, unzipped.Name)
	}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		content, err := io.ReadAll(r)
		if err != nil || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%+v, %v", h, err)
		}
		line, _, _ := strings.Cut(string(content), "\n")
		all = append(all, fmt.Sprintf("%s %o %s", h.Name, h.Mode, line))
	}
}

// A directory with something else is not replaced, and a release of before stays where one cannot be made.
func TestNothingHalf(t *testing.T) {
	s := newStandIn(t)
	must(t, os.MkdirAll(filepath.Join(s.dir, "mine"), 0o700))
	if err := vacant(s.dir); err == nil || !strings.Contains(err.Error(), "is no release: remove it") {
		t.Errorf("%v", err)
	}
	must(t, os.Rename(s.dir, s.dir+".new"))
	if err := vacant(s.dir); err == nil || !strings.Contains(err.Error(), "dist.new is there and is no release: remove it") {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(filepath.Join(s.dir+".new", "mine")))
	s.mustPack(t)
	if err := vacant(s.dir); err != nil {
		t.Error(err)
	}
	before, err := hashes(s.dir)
	must(t, err)
	must(t, os.Remove(filepath.Join(s.built, "linux_arm64", "weir-global")))
	if err := s.pack(s.built, s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if after, err := hashes(s.dir); err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v, %v; want %v", after, err, before)
	}
	if _, err := os.Stat(s.dir + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s.new is there: %v", s.dir, err)
	}
}
