package compose

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Every program compiles for arm64, and needs no library there.
func TestArm64(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"regional", "global", "cmd/weir"} {
		to := filepath.Join(dir, filepath.Base(program))
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", to, "./"+program)
		cmd.Dir = proc.Root(t)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		isFor(t, to, elf.EM_AARCH64)
	}
}

// otherImages are those of the programs, for the other architecture. compose builds them: it needs no buildx.
const otherImages = `
services:
  regional: { image: "weir-test-regional:arm64", build: { context: ., target: regional, platforms: [linux/arm64] } }
  global: { image: "weir-test-global:arm64", build: { context: ., target: global, platforms: [linux/arm64] } }
`

// The images of the programs are made for the other architecture on this one.
func TestImagesForArm64(t *testing.T) {
	needStack(t)
	t.Setenv("DOCKER_BUILDKIT", "1")
	file := proc.WriteFile(t, filepath.Join(t.TempDir(), "compose.yml"), otherImages)
	docker(t, "compose", "--file", file, "--project-directory", ".", "--project-name", "weir-test-arm64", "build", "--quiet")
	for _, program := range []string{"regional", "global"} {
		image := "weir-test-" + program + ":arm64"
		if arch := docker(t, "image", "inspect", "--format", "{{.Architecture}}", image); arch != "arm64" {
			t.Errorf("%s is for %s", image, arch)
		}
		dir := t.TempDir()
		docker(t, "create", "--platform", "linux/arm64", "--name", "weir-test-arm64", image)
		docker(t, "cp", "weir-test-arm64:/", dir)
		docker(t, "rm", "--volumes", "weir-test-arm64")
		docker(t, "rmi", image)
		isFor(t, filepath.Join(dir, "weir-"+program), elf.EM_AARCH64)
		isFor(t, filepath.Join(dir, "weir"), elf.EM_AARCH64)
	}
}

// isFor checks that a program is static, and for what machine.
func isFor(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = f.Close() }()
	if f.Machine != machine {
		t.Errorf("%s is for %v, want %v", filepath.Base(path), f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", filepath.Base(path))
		}
	}
}
