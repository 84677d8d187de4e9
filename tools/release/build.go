package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platform is what programs are built for.
type platform struct {
	os, arch string
	programs []string
}

var platforms = []platform{
	{"linux", "amd64", []string{"weir", "weir-regional", "weir-global", native}},
	{"linux", "arm64", []string{"weir", "weir-regional", "weir-global", native}},
	{"darwin", "amd64", []string{"weir"}},
	{"darwin", "arm64", []string{"weir"}},
	wasm,
}

// filter and native are the files with the filter, as the WASM module and as the native module.
const filter, native = "weir.wasm", "weir.so"

// wasm is what the WASM module is built for.
var wasm = platform{"wasip1", "wasm", []string{filter}}

// packages are those of the programs.
var packages = map[string]string{
	"weir": "./cmd/weir", "weir-regional": "./cmd/weir-regional", "weir-global": "./cmd/weir-global", filter: "./wasmfilter", native: "./wasmfilter/native",
}

// targets are what Zig builds the native module for, by architecture: the oldest glibc that both have.
var targets = map[string]string{"amd64": "x86_64-linux-gnu.2.17", "arm64": "aarch64-linux-gnu.2.17"}

// String is the part of file names, and the directory with what is built.
func (p platform) String() string { return p.os + "_" + p.arch }

// same is the environment of what is called, so that no setting of this machine changes the bytes, nor a go.work above
// the repository Go's version and the modules.
var same = []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOWASM=", "GOEXPERIMENT=", "GOFIPS140=off"}

// build compiles all programs, each with the list of what it is made of beside it. zig is the program that compiles C, the
// same on every machine.
func build(root, into, zig string) error {
	lists, err := filepath.Abs(filepath.Join(root, ".tools", "sbom"))
	if err != nil {
		return err
	}
	if zig, err = filepath.Abs(zig); err != nil {
		return err
	}
	for _, p := range platforms {
		env := append(os.Environ(), append(same, "GOOS="+p.os, "GOARCH="+p.arch)...)
		for _, program := range p.programs {
			file := filepath.Join(into, p.String(), program)
			env, args := env, []string{"build", "-ldflags=-s -w -buildid=", "-o", file, packages[program]}
			switch program {
			case filter: // as make build has it: Envoy compiles each other content again
				args = []string{"build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file, packages[program]}
			case native: // what is for debuggers has paths of this machine
				args = []string{"build", "-buildmode=c-shared", "-ldflags=-s -w -buildid= -extldflags=-Wl,--strip-all", "-o", file, packages[program]}
				env = append(slices.Clone(env), "CGO_ENABLED=1", "CGO_CPPFLAGS=", "CGO_CFLAGS=-O2 -g0", "CGO_LDFLAGS=", "CC='"+zig+"' cc -target "+targets[p.arch])
			}
			fmt.Println(program, p)
			for _, argv := range [][]string{append([]string{"go"}, args...), {lists, file, packages[program]}} {
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Dir, cmd.Env, cmd.Stderr = root, env, os.Stderr
				if err := cmd.Run(); err != nil {
					return fmt.Errorf("%s for %s: %w", strings.Join(argv, " "), p, err)
				}
			}
		}
	}
	return nil
}
