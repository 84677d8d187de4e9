package main

import (
	"os"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestDocuments holds the documents to what the simulator makes: run make sim and commit what it changes, if you can say
// why.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	f := fatal.Get(play(documentSeed))(t)
	page := read(t, "simulator.md")
	if now := f.in(page); now != page {
		t.Errorf("docs/simulator.md has other tables than\n%s", now)
	}
	if f.plot != read(t, "simulator.svg") {
		t.Error("docs/simulator.svg is another plot")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := fatal.Get(os.ReadFile("../../../docs/" + name))(t)
	return string(text)
}
