package main

import (
	"os"
	"testing"
)

// TestDocuments holds the documents to what the simulator makes: run make sim and commit
// what it changes, if you can say why.
func TestDocuments(t *testing.T) {
	results, err := sweep(documentSeed)
	if err != nil {
		t.Fatal(err)
	}
	page, drawn := read(t, "simulator.md"), read(t, "simulator.svg")
	if replaceTable(page, sweepBegins, table(results)) != page {
		t.Errorf("docs/simulator.md has another table than\n%s", table(results))
	}
	small, err := fewTables(documentPercent)
	if err != nil {
		t.Fatal(err)
	}
	if replaceTable(page, fewBegins, small) != page {
		t.Errorf("docs/simulator.md has other tables of small limits than\n%s", small)
	}
	if now, err := draw(results); err != nil || now != drawn {
		t.Errorf("docs/simulator.svg is another plot (%v)", err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
