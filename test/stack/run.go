package stack

import "testing"

// Run starts any program for the length of t. Its log stays in .run/ if t fails.
func Run(t testing.TB, name string, argv ...string) *Process {
	t.Helper()
	return startProcess(t, logDir(t), name, argv...)
}

// RegionProgram is the path of the built weir-regional.
func RegionProgram(t testing.TB) string {
	t.Helper()
	return built(t, "bin/weir-regional", "build")
}

// CommandProgram is the path of the built weir.
func CommandProgram(t testing.TB) string {
	t.Helper()
	return built(t, "bin/weir", "build")
}
