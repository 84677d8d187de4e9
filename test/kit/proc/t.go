// Package proc starts and watches the programs of tests and benchmarks: it chooses
// their ports, waits until they are ready, reads their logs, and pauses, stops and
// kills them. Nothing that it starts outlives the process that started it, not even a
// killed one.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// T is what of a testing.TB is used. A program that is no test uses a [Program]
// instead.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
	TempDir() string
	Context() context.Context
}

// Program stands in for the test where there is none. What would fail the test is a
// panic, which [Recover] makes an error of. Its methods may be called from several
// goroutines.
type Program struct {
	Ctx      context.Context // ends what is waited for
	Dir      string          // for logs and configuration; it has to exist
	mu       sync.Mutex
	cleanups []func()
}

// failure is the panic of a [Program].
type failure struct{ error }

// Recover is deferred: it makes an error of what a [Program] could not do in this
// goroutine.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	default:
		panic(r)
	}
}

// Close stops all that was started for p, the newest first.
func (p *Program) Close() { p.closeTo(0) }

// Within runs f, and stops what was started in it.
func (p *Program) Within(f func()) {
	defer p.closeTo(len(p.cleanups))
	f()
}

func (p *Program) closeTo(kept int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.cleanups) > kept {
		last := len(p.cleanups) - 1
		clean := p.cleanups[last]
		p.cleanups = p.cleanups[:last]
		clean()
	}
}

// Cleanup adds what Close does.
func (p *Program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// Helper does nothing.
func (p *Program) Helper() {}

// Failed is false: what failed is an error.
func (p *Program) Failed() bool { return false }

// TempDir is the program's directory.
func (p *Program) TempDir() string { return p.Dir }

// Context is Ctx.
func (p *Program) Context() context.Context { return p.Ctx }

// Logf prints to stderr.
func (p *Program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf is as Fatalf.
func (p *Program) Errorf(format string, args ...any) { p.Fatalf(format, args...) }

// Fatal panics, for [Recover].
func (p *Program) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Fatalf is as Fatal.
func (p *Program) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
