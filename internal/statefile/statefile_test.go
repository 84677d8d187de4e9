package statefile_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/statefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// write makes a file of so many records.
func write(t testing.TB, path string, records int) {
	t.Helper()
	size, err := statefile.Write(path, 6, func(put func([]byte)) {
		for i := range records {
			put(fmt.Appendf(nil, "record %d", i))
		}
	})
	if info, _ := os.Stat(path); err != nil || info == nil || info.Size() != size {
		t.Fatalf("%d bytes, %v", size, err)
	}
}

func collect(path string) (got []string, h statefile.Header, err error) {
	h, err = statefile.Read(path, func(r []byte) error { got = append(got, string(r)); return nil })
	return got, h, err
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if _, _, err := collect(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for _, n := range []int{0, 1, 20_000} { // the last in several blocks; each replaces the one before
		write(t, path, n)
		got, h, err := collect(path)
		if err != nil || len(got) != n || h.Holders != 6 || h.PID != os.Getpid() || time.Since(h.Saved).Abs() > time.Minute {
			t.Fatalf("%d of %d records, %+v, %v", len(got), n, h, err)
		}
		if n > 0 && got[n-1] != fmt.Sprintf("record %d", n-1) {
			t.Errorf("the last one is %q", got[n-1])
		}
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// unzip is what gzip reads; nil: it finds damage.
func unzip(file []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return nil
	}
	return all
}

// A file that was cut anywhere shows nothing at all. So does one with a wrong bit in any byte, but for bits that
// gzip does not read: its time, system and level, and what fills the last byte of a block's head.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	write(t, path, 30)
	whole := fatal.Get(os.ReadFile(path))(t)
	try := func(what string, content []byte) {
		t.Helper()
		fatal.If(t, os.WriteFile(path, content, 0o600))
		got, _, err := collect(path)
		if len(got) > 0 || err == nil || !strings.HasPrefix(err.Error(), "damaged: ") {
			t.Fatalf("%s: %d records, %v; want none, and what is damaged", what, len(got), err)
		}
	}
	unread := 0
	for i := range whole {
		try(fmt.Sprint("cut at ", i), whole[:i])
		wrong := bytes.Clone(whole)
		wrong[i] ^= 1 << (i % 8)
		if bytes.Equal(unzip(wrong), unzip(whole)) {
			unread++
			continue
		}
		try(fmt.Sprint("wrong at ", i), wrong)
	}
	if unread > 8 {
		t.Errorf("%d bytes in which a wrong bit is not noticed", unread)
	}
	try("more behind it", append(bytes.Clone(whole), 0))
}

// What another release has laid out in another way is not read, and stated.
func TestOtherLayout(t *testing.T) {
	path, file := filepath.Join(t.TempDir(), "state"), new(bytes.Buffer)
	z := gzip.NewWriter(file)
	header := `{"layout": 99}`
	fatal.Get(fmt.Fprintf(z, "weirstat%c%s", len(header), header))(t)
	fatal.If(t, errors.Join(z.Close(), os.WriteFile(path, file.Bytes(), 0o600)))
	if _, _, err := collect(path); err == nil || !strings.Contains(err.Error(), "its layout is 99") {
		t.Errorf("%v, want that its layout is 99", err)
	}
}

// A process that ends while it writes leaves the file as it was.
func TestUnfinishedKeepsTheOldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	write(t, path, 3)
	_, err := statefile.Write(path, 0, func(put func([]byte)) {
		put(make([]byte, 1<<20)) // more than a block
		if got, _, err := collect(path); err != nil || len(got) != 3 {
			t.Errorf("%d records, %v; want the 3 of before", len(got), err)
		}
	})
	fatal.If(t, err)
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	first := fatal.Get(statefile.Lock(path))(t)
	var used *statefile.InUseError
	if _, err := statefile.Lock(path); !errors.As(err, &used) || used.Path != path || used.PID != strconv.Itoa(os.Getpid()) {
		t.Errorf("a second lock: %v", err)
	}
	keepOpen(t, path+".lock")
	fatal.If(t, first.Close())
	again := fatal.Get(statefile.Lock(path))(t)
	fatal.If(t, again.Close())
}

// keepOpen keeps a file of this process open, as a program that it starts does until it runs.
func keepOpen(t *testing.T, path string) {
	t.Helper()
	for fd := range 100 {
		if to, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); to == path {
			again := fatal.Get(syscall.Dup(fd))(t)
			t.Cleanup(func() { _ = syscall.Close(again) })
			return
		}
	}
	t.Fatal(path, " is not open")
}

// What is no file is nobody's to lock, and nothing is left beside it.
func TestLockNoFile(t *testing.T) {
	for _, path := range []string{t.TempDir(), os.DevNull} {
		if _, err := statefile.Lock(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v, want that it is no file", path, err)
		}
		if _, err := os.Stat(path + ".lock"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s.lock: %v", path, err)
			_ = os.Remove(path + ".lock")
		}
	}
}
