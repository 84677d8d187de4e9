// Package cgroup runs programs with a limit of memory, as containers and units have one: what
// needs more is killed.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// root is where the hierarchies are mounted.
const root = "/sys/fs/cgroup"

// files are what a version of cgroups calls the same things.
type files struct{ limit, peak, events string }

var (
	v1 = files{"memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"}
	v2 = files{"memory.max", "memory.peak", "memory.events"}
)

// Group is a cgroup with a limit of memory.
type Group struct {
	t   testing.TB
	dir string
	files
}

// New makes a group with a limit, in bytes. It ends with the test, and what still runs in it is
// killed. Where none can be made, as without root or without the memory controller, the test is
// skipped, with the reason.
func New(t testing.TB, limit int64) *Group {
	t.Helper()
	g := &Group{t: t, dir: root, files: v2}
	if _, err := os.Stat(filepath.Join(root, "memory", v1.limit)); err == nil {
		g.dir, g.files = filepath.Join(root, "memory"), v1
	} else if err := g.write("cgroup.subtree_control", "+memory"); err != nil {
		t.Skipf("no cgroup with a limit of memory can be made here: %v", err)
	}
	dir, err := os.MkdirTemp(g.dir, "weir-test-")
	if err != nil {
		t.Skipf("no cgroup with a limit of memory can be made here: %v", err)
	}
	g.dir = dir
	t.Cleanup(g.remove)
	if err := g.write(g.limit, strconv.FormatInt(limit, 10)); err != nil {
		t.Skipf("a cgroup here has no limit of memory: %v", err)
	}
	return g
}

// Command is the command line that runs another one in the group.
func (g *Group) Command(argv []string) []string {
	const enter = `echo $$ > "$0" && exec "$@"`
	return append([]string{"/bin/sh", "-c", enter, filepath.Join(g.dir, "cgroup.procs")}, argv...)
}

// Peak is the most memory that the group had at once, in bytes, with the files that the kernel
// cached for it: these give way before anything is killed.
func (g *Group) Peak() int64 {
	g.t.Helper()
	return fatal.Get(strconv.ParseInt(strings.TrimSpace(g.read(g.peak)), 10, 64))(g.t)
}

// Killed is how many processes of the group were killed for want of memory.
func (g *Group) Killed() (n int) {
	g.t.Helper()
	for line := range strings.Lines(g.read(g.events)) {
		if found, _ := fmt.Sscanf(line, "oom_kill %d", &n); found == 1 {
			return n
		}
	}
	g.t.Fatalf("%s has no oom_kill", filepath.Join(g.dir, g.events))
	return 0
}

func (g *Group) read(file string) string {
	g.t.Helper()
	return string(fatal.Get(os.ReadFile(filepath.Join(g.dir, file)))(g.t))
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644)
}

// remove kills what is in the group. The kernel needs a moment to take the processes out.
func (g *Group) remove() {
	var err error
	for range 200 {
		text, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		for _, pid := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
			}
		}
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	g.t.Errorf("the cgroup stays: %v", err)
}
