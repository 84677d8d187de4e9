// Package limittest makes limits for tests.
package limittest

import "github.com/weirlimit/weir/internal/limit"

// test is a [testing.TB], or a test of rapid.
type test interface {
	Helper()
	Fatal(args ...any)
}

// New is [limit.New] of a spec without mistakes.
func New(t test, s limit.Spec) *limit.Limit {
	l, err := limit.New(s)
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
	return l
}
