package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// tree is the content of a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") {
			var text []byte
			text, err = os.ReadFile(path)
			all[path] = string(text)
		}
		return err
	})
	fatal.If(t, err)
	return all
}

// A run that is killed at any time is completed by the next one, with what the first had chosen, and another
// changes nothing.
func TestBootstrapKilled(t *testing.T) {
	cut := 0
	every := 5 * time.Millisecond
	if testing.Short() {
		every = 20 * time.Millisecond
	}
	for after := time.Duration(0); after < 60*time.Millisecond; after += every {
		dir := filepath.Join(t.TempDir(), "weir")
		args := []string{"admin", "bootstrap", dir, "--regions", "eu,us", "--home", "eu"}
		cmd := exec.Command(binary, args...)
		fatal.If(t, cmd.Start())
		time.Sleep(after) // wherever it is then
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		state, _ := os.ReadFile(filepath.Join(dir, "state.json"))
		if _, err := os.Stat(filepath.Join(dir, "us", "service", "redis-password")); len(state) > 0 && err != nil {
			cut++
		}
		if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
			t.Fatalf("killed after %v: %v\n%s", after, err, out)
		}
		whole := tree(t, dir)
		if len(state) > 0 && whole[filepath.Join(dir, "state.json")] != string(state) {
			t.Errorf("killed after %v: the next run chose anew", after)
		}
		if out, err := exec.Command(binary, "admin", "bootstrap", dir).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("nothing was changed")) {
			t.Errorf("killed after %v: then %v\n%s", after, err, out)
		}
		again := tree(t, dir)
		for path, text := range whole {
			if again[path] != text || strings.Contains(path, ".new-") {
				t.Errorf("killed after %v: %s was changed or left", after, path)
			}
		}
	}
	t.Logf("%d runs were killed between the state and the last file", cut)
}
