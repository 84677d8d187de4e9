package rulefile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// swap makes a version of a directory as Kubernetes does: its files, a link that leads to them, and then the version
// before is removed.
func swap(dir string, version int) error {
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	folder := fmt.Sprintf("..version_%d", version)
	err := os.Mkdir(filepath.Join(dir, folder), 0o700)
	for _, name := range []string{"a", "b", "c"} {
		text := fmt.Sprintf("rules: [{ name: %s, key: [], limit: %d/1m }]\n", name, version)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, folder, name+".yaml"), []byte(text), 0o600))
	}
	err = errors.Join(err, os.Symlink(folder, filepath.Join(dir, "..new")), os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	if before != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, before)))
	}
	return err
}

// TestReadsOneVersion: what is read while versions change is never half of two.
func TestReadsOneVersion(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, swap(dir, 1))
	turns := make(chan struct{}, 1) // one for each time that it is read, whose tries two changes do not use up
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(turns)
	writer.Go(func() {
		version := 1
		for range turns {
			version++
			if err := swap(dir, version); err != nil {
				t.Error(err)
				return
			}
		}
	})
	seen := map[int64]bool{}
	for end := time.Now().Add(time.Minute); len(seen) < 50 && time.Now().Before(end); {
		select {
		case turns <- struct{}{}:
		default:
		}
		d := fatal.Get(rulefile.Load(dir))(t)
		first := d.Set.Rule(0).Limits[0].Limit.Count
		for i := range d.Set.Len() {
			if count := d.Set.Rule(i).Limits[0].Limit.Count; d.Set.Len() != 3 || count != first {
				t.Fatalf("half of two versions: %s", d.Set.Encode())
			}
		}
		seen[first] = true
	}
	if len(seen) < 50 {
		t.Errorf("saw %d versions, want many", len(seen))
	}
}

// TestHostileFiles: what is far too large, or multiplies, is rejected before it takes time or memory. How long each took
// is printed, and what was read of it is bounded.
func TestHostileFiles(t *testing.T) {
	large := func(name, begin string, size int64) string {
		path := filepath.Join(t.TempDir(), name)
		fatal.If(t, os.WriteFile(path, []byte(begin), 0o600))
		fatal.If(t, os.Truncate(path, size))
		return path
	}
	small := func(text string) string {
		return filepath.Join(directory(t, map[string]string{"rules.yaml": text}), "rules.yaml")
	}
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x]\n")
	for i := range 40 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	crowd := t.TempDir()
	for i := range 1001 {
		fatal.If(t, os.WriteFile(filepath.Join(crowd, fmt.Sprintf("%d.yaml", i)), nil, 0o600))
	}
	for name, c := range map[string]struct{ path, want string }{
		"100 MB":                    {large("rules.yaml", "rules: [", 100<<20), "has more than 8388608 bytes"},
		"a list of 3,900,000":       {small("rules: [" + strings.Repeat("x,", 3_900_000) + "]\n"), "lines and commas; write at most 1048576"},
		"anchors that multiply":     {small(bomb.String() + "rules: *a40\n"), "is an alias (*a40), which rules do not support"},
		"1,000,000 brackets":        {small("rules: " + strings.Repeat("[", 1_000_000)), "exceeded max depth"},
		"1,000,000 braces":          {small("rules: " + strings.Repeat("{a: ", 1_000_000)), "exceeded max depth"},
		"1,001 files":               {crowd, "has more than 1000 files; is it a directory of rules?"},
		"one large file of several": {filepath.Dir(large("b.yaml", "rules: []", 9<<20)), "has more than 8388608 bytes"},
	} {
		begin := time.Now()
		_, err := rulefile.Load(c.path)
		t.Logf("%-26s %v", name, time.Since(begin).Round(time.Millisecond))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v, want %s", name, err, c.want)
		}
	}
}

// TestPipe: of a pipe that does not end no more is read than a file may have.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	fatal.If(t, syscall.Mkfifo(path, 0o600))
	wrote := make(chan int)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			wrote <- 0
			return
		}
		n, _ := f.Write(make([]byte, 100<<20)) // ends when the reader closes
		wrote <- n
	}()
	if _, err := rulefile.ReadFile(path); err == nil || !strings.Contains(err.Error(), "has more than 8388608 bytes") {
		t.Errorf("%v", err)
	}
	if n := <-wrote; n < 8<<20 || n > 9<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

// TestOnlyFilesOfADirectory: what is neither a file nor a link to one is named, and keeps no reading of a
// directory waiting.
func TestOnlyFilesOfADirectory(t *testing.T) {
	dir := directory(t, map[string]string{"a.yaml": login})
	path := filepath.Join(dir, "b.yaml")
	for name, put := range map[string]func() error{
		"link":   func() error { return os.Symlink("a.yaml", path) },
		"pipe":   func() error { return syscall.Mkfifo(path, 0o600) },
		"socket": func() error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
		"device": func() error { return os.Symlink("/dev/zero", path) },
		"folder": func() error { return os.Mkdir(path, 0o700) },
	} {
		fatal.If(t, put())
		_, err := rulefile.ReadFiles(dir)
		if rejected := err != nil && strings.HasPrefix(err.Error(), path+": is no file; "); rejected == (name == "link") || !rejected && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		fatal.If(t, os.Remove(path))
	}
}
