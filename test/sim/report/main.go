// Command report plays the runs of docs/simulator.md: what is admitted by delay, loss and lease settings, and how small
// limits are admitted. It prints the tables; with -docs it writes them and the plot into the documents. It fails if a
// promise was broken.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
)

// documentSeed is that of the tables in the documents.
const documentSeed = 1

func main() {
	seed := flag.Uint64("seed", documentSeed, "of all runs")
	docs := flag.String("docs", "", "directory of the documents to write the tables and the plot into; empty: nowhere")
	flag.Parse()
	debug.SetGCPercent(800) // runs leave much garbage, and little that lives
	if err := report(*seed, *docs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(seed uint64, docs string) error {
	f, err := play(seed)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n\nadmitted, %% of one exact limiter / %% of the limit in the worst period:\n\n%s\na client sends a limit once:\n\n%s", seed, f.sweep, f.few)
	if docs == "" {
		return nil
	}
	page := filepath.Join(docs, "simulator.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(f.in(string(text))), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "simulator.svg"), []byte(f.plot), 0o666)
}

// figures are the tables and the plot of the page.
type figures struct{ sweep, few, plot string }

// play is a function of the seed.
func play(seed uint64) (f figures, err error) {
	results, err := sweep(seed)
	if err != nil {
		return f, err
	}
	f.sweep = table(results)
	if f.few, err = fewTables(); err != nil {
		return f, err
	}
	f.plot, err = draw(results)
	return f, err
}

// in is the page with these tables.
func (f *figures) in(page string) string {
	return replaceTable(replaceTable(page, sweepBegins, f.sweep), fewBegins, f.few)
}
