package measure

import (
	"slices"
	"testing"
)

const benchText = `goos: linux
pkg: example.com/limit
BenchmarkDecision/token_bucket 	18012345	        56.70 ns/op	       0 B/op	       0 allocs/op
BenchmarkDecision/token_bucket 	18012345	        58.10 ns/op	       0 B/op	       0 allocs/op
BenchmarkTake-2   	  100	  1000 ns/op
PASS
ok  	example.com/limit	2.3s
pkg: example.com/lease
BenchmarkTake 	  100	  7 ns/op	 3 decisions/op	 1 allocs/op
PASS
`

func TestParseGoBench(t *testing.T) {
	got, err := ParseGoBench(benchText)
	if err != nil {
		t.Fatal(err)
	}
	want := []GoBench{
		{"example.com/limit", "Decision/token_bucket", Sample{56.7, 58.1}, Sample{0, 0}},
		{"example.com/limit", "Take", Sample{1000}, nil},
		{"example.com/lease", "Take", Sample{7}, Sample{1}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d benchmarks, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Package != w.Package || g.Name != w.Name || !slices.Equal(g.Nanos, w.Nanos) || !slices.Equal(g.Allocs, w.Allocs) {
			t.Errorf("benchmark %d = %+v, want %+v", i, *g, w)
		}
	}
}

func TestParseGoBenchThatIsBroken(t *testing.T) {
	if got, err := ParseGoBench("BenchmarkX 10 fast ns/op\n"); err == nil {
		t.Errorf("= %+v, want an error", got)
	}
}
