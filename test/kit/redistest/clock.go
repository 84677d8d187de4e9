package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is the time of day of the servers that are started with [Clock.Option]. A test sets it
// wrong, and right again, while they run.
type Clock struct {
	t      proc.T
	shim   string // the library that servers load
	offset string // a file with the offset, which it maps
}

// NewClock makes a clock that is right. It needs a C compiler.
func NewClock(t proc.T) *Clock {
	t.Helper()
	dir := t.TempDir()
	c := &Clock{t: t, shim: filepath.Join(dir, "clock.so"), offset: filepath.Join(dir, "offset")}
	source := proc.WriteFile(t, filepath.Join(dir, "clock.c"), string(clockSource))
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", c.shim, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: run `make setup`\n%s", err, out)
	}
	proc.WriteFile(t, c.offset, string(make([]byte, 8)))
	return c
}

// Set makes the clock run ahead by a time, or behind by a negative one.
func (c *Clock) Set(ahead time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.offset, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds())), 0) // eight bytes in one piece: no process reads half of them
		_ = f.Close()
	}
	if err != nil {
		c.t.Fatalf("%v", err)
	}
}

// Option starts servers with this clock.
func (c *Clock) Option() Option {
	return func(s *settings) {
		s.before = append(s.before, "env", "LD_PRELOAD="+c.shim, "TEST_CLOCK="+c.offset)
	}
}
