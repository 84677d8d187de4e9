package proc

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What fails a test is an error where there is no test, and everything that was
// started ends with it.
func TestProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	program := &Program{Ctx: ctx, Dir: t.TempDir()}
	var p *Process
	try := func(f func()) (err error) {
		defer Recover(&err)
		f()
		return nil
	}
	if err := try(func() { p = Start(program, program.Dir, "sleeper", "sleep", "120") }); err != nil {
		t.Fatal(err)
	}
	if err := try(func() { Start(program, program.Dir, "nothing", "/nothing") }); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a program that does not exist: %v", err)
	}
	gone := Start(program, program.Dir, "gone", "sh", "-c", "echo why; exit 3")
	if err := try(func() { gone.AwaitReady("tcp://" + FreeAddr(t)) }); err == nil || !strings.Contains(err.Error(), "exited while starting") || !strings.HasSuffix(err.Error(), "why") {
		t.Errorf("a program that ends at once: %v", err)
	}
	cancel()
	begin := time.Now()
	if err := try(func() { p.AwaitReady("tcp://" + FreeAddr(t)) }); err == nil || time.Since(begin) > startTimeout/2 {
		t.Errorf("what is waited for does not end with the context: %v", err)
	}
	program.Close()
	if !p.Exited() {
		t.Error("still there after Close")
	}
}

func TestBeginAgain(t *testing.T) {
	p := Start(t, t.TempDir(), "echo", "sh", "-c", "echo $STATE_DIRECTORY; sleep 120")
	kept := filepath.Join(p.dir, "echo.kept")
	want := kept + "\n"
	Eventually(t, 10*time.Second, "it has printed", func() bool { return p.Log() == want })
	p.Pause()
	if p.Answers() || p.Exited() {
		t.Error("a paused process is there and does not answer")
	}
	p.Resume()
	if !p.Answers() {
		t.Error("a process that goes on answers")
	}
	p.Kill()
	if p.Answers() || !p.Exited() {
		t.Error("a killed process does not answer")
	}
	p.Begin()
	Eventually(t, 10*time.Second, "it has printed again", func() bool { return p.Log() == want+want })
	if !p.Answers() || p.Tail(1) != kept {
		t.Errorf("begun again, it prints %q", p.Tail(1))
	}
}
