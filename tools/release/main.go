// Release makes what a release consists of, and pushes its images:
//
//	release -zig PROGRAM                         writes dist/; Zig compiles C
//	release -zig PROGRAM -tag v0.1.0             and rejects another version, and what is in no commit
//	release -push registry.example/weir          pushes the images of dist/: registry.example/weir-regional:0.1.0
//
// It runs at the root of the repository. The same commit is the same bytes in each folder, with each umask and at each
// time, by the same version of Go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	tag := flag.String("tag", "", "tag that the release is made for")
	zig := flag.String("zig", "zig", "program of Zig")
	prefix := flag.String("push", "", "push the images to names that begin so, and make nothing")
	flag.Parse()
	var err error
	if *prefix != "" {
		err = push("dist", *prefix, os.Stdout)
	} else {
		err = run("dist", *tag, *zig)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(dir, tag, zig string) error {
	r, err := describe(".")
	if err != nil {
		return err
	}
	switch {
	case tag != "" && tag != "v"+r.version:
		return fmt.Errorf("the tag is %s and %s has v%s: write the same in both", tag, versionFile, r.version)
	case tag != "" && r.changed:
		return errors.New("the tree has changes that are in no commit: commit them, or remove them")
	case r.changed:
		fmt.Fprintln(os.Stderr, "release: the tree has changes that are in no commit, and the provenance states it")
	}
	if err := vacant(dir); err != nil {
		return err
	}
	built, err := os.MkdirTemp("", "weir-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(built) }()
	if err := build(r.root, built, zig); err != nil {
		return err
	}
	return r.pack(built, dir)
}

// versionFile has the version.
const versionFile = "internal/version/version.go"

// release is what there is to know about a release before it is made.
type release struct {
	root    string    // of the repository
	version string    // without the v
	commit  string    // that is checked out
	changed bool      // files differ from the commit
	time    time.Time // of the commit
	goes    string    // version of Go
}

var constant = regexp.MustCompile(`(?m)^const Version = "v(\d+\.\d+\.\d+\S*)"$`)

// describe reads the version, and asks git and Go.
func describe(root string) (*release, error) {
	r := &release{root: root}
	text, err := os.ReadFile(filepath.Join(root, versionFile))
	if err != nil {
		return nil, err
	}
	m := constant.FindSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%s has no version: it must have a line such as const Version = \"v0.1.0\"", versionFile)
	}
	r.version = string(m[1])
	if r.goes, err = output(root, "go", "env", "GOVERSION"); err != nil {
		return nil, err
	}
	if set, err := output(root, "go", "env", "GOEXPERIMENT", "GOWASM"); err != nil || set != "" { // an empty variable does not hide it
		return nil, errors.Join(err, fmt.Errorf("go env -w has set %q, which changes the bytes: go env -u GOEXPERIMENT GOWASM", set))
	}
	// A commit says nothing of what lies in a repository of others.
	if name, err := output(root, "git", append(ours, "ls-files", "--full-name", "--error-unmatch", versionFile)...); err != nil || name != versionFile {
		return nil, errors.Join(fmt.Errorf("%s is not at the root of a repository that has %s: make the release in a git checkout of Weir", root, versionFile), err)
	}
	last, err := output(root, "git", append(ours, "log", "-1", "--format=%H %ct")...)
	if err != nil {
		return nil, err
	}
	commit, at, _ := strings.Cut(last, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("git log: %w", err)
	}
	r.commit, r.time = commit, time.Unix(seconds, 0).UTC()
	status, err := output(root, "git", append(ours, "status", "--porcelain")...)
	r.changed = status != ""
	return r, err
}

// ours is the configuration of git: a checkout may belong to another user, and no setting hides what is built, and not
// of the commit.
var ours = []string{
	"-c", "safe.directory=*", "-c", "status.showUntrackedFiles=all", "-c", "core.excludesFile=/dev/null", "-c", "core.fileMode=true", "-c", "core.symlinks=true",
}

func output(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), same...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// vacant rejects a directory that is there, not empty, and no release; the one where the next release is made, too.
func vacant(dir string) error {
	for _, dir := range []string{dir, dir + ".new"} {
		files, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
			return fmt.Errorf("%s is there and is no release: remove it", dir)
		}
	}
	return nil
}
