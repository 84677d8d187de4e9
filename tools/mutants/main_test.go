package main

import (
	"slices"
	"testing"
	"time"
)

// No test of small calls it with 10, or reads how often it was called.
func TestSurvivors(t *testing.T) {
	s, err := goSubject("testdata/small", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !s.run(0, time.Minute) {
		t.Fatal("its tests fail without a mutant")
	}
	want := []mutant{{1, "small.go:6:7", "++"}, {2, "small.go:8:12", "negated =="}, {3, "small.go:10:9", "bound of >="}, {4, "small.go:10:9", "negated >="}}
	if !slices.Equal(s.mutants, want) {
		t.Errorf("mutants %v", s.mutants)
	}
	if lived := survivorsOf(s, s.mutants, 2, time.Minute); !slices.Equal(lived, []mutant{want[0], want[2]}) {
		t.Errorf("lived %v", lived)
	}
}

func TestLuaChanges(t *testing.T) {
	for line, want := range map[string][]luaChange{
		"  if a <= b then -- a < b\n": {{"negated <=", "  if a > b then -- a < b\n"}, {"bound of <=", "  if a < b then -- a < b\n"}},
		"  state.left = 3\n":          {{"dropped", "\n"}},
		"  local left = 3\n":          nil,
		"  redis.call('GET',\n":       nil,
	} {
		if got := changes([]string{"\n", line, "\n"}, 1); !slices.Equal(got, want) {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestSpaced(t *testing.T) {
	all := []mutant{{id: 1}, {id: 2}, {id: 3}, {id: 4}, {id: 5}}
	if got := spaced(all, 2); !slices.Equal(got, []mutant{{id: 1}, {id: 3}}) {
		t.Errorf("two of five are %v", got)
	}
	if got := spaced(all, 9); len(got) != 5 {
		t.Errorf("nine of five are %v", got)
	}
}
