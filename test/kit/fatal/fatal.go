// Package fatal ends tests that cannot go on.
package fatal

// test is a [testing.TB], or a test of rapid.
type test interface {
	Helper()
	Fatal(args ...any)
}

// If ends a test if there is an error.
func If(t test, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a value, or ends a test if there is an error: fatal.Get(os.ReadFile(path))(t).
func Get[V any](v V, err error) func(t test) V {
	return func(t test) V {
		t.Helper()
		If(t, err)
		return v
	}
}
