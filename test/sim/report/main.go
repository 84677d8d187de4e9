// Command report runs the simulator at scale and draws what Weir admits. It prints the seed,
// what the large runs admitted, and a table of what is admitted by delay, loss and lease
// settings, and tables of how small limits are admitted; with -docs it writes the tables and the plot into the documents. It fails if a
// promise was broken.
//
// The large runs need a bubble of testing/synctest, so the command is a test binary: it
// ends with PASS or FAIL, and takes the flags of one.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
)

// documentSeed is that of the table in the documents.
const documentSeed = 1

var (
	seed  = flag.Uint64("seed", documentSeed, "of all runs")
	rate  = flag.Float64("rate", 8450, "requests per second of each large run")
	lasts = flag.Duration("lasts", 10*time.Minute, "simulated time of each large run")
	docs  = flag.String("docs", "", "directory of the documents to write the table and the plot into; empty: nowhere")
)

func main() {
	debug.SetGCPercent(800) // runs leave much garbage, and little that lives
	fmt.Printf("seed %d\n", *seed)
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "scale", F: scale}, {Name: "few", F: few}, {Name: "sweep", F: report}}, nil, nil)
}

// scale plays one large run for each algorithm, side by side.
func scale(t *testing.T) {
	begin := time.Now()
	runs := make([]*run, len(large))
	t.Run("runs", func(t *testing.T) {
		for i, a := range large {
			runs[i] = newRun(*seed, a, *rate, limit.Micros(lasts.Microseconds()))
			t.Run(a.String(), func(t *testing.T) {
				t.Parallel()
				runs[i].play(t)
			})
		}
	})
	if t.Failed() {
		return
	}
	if n := show(runs, time.Since(begin)); *lasts >= 10*time.Minute && n < 10_000_000 {
		t.Errorf("%d requests, want ten million", n)
	}
}

// report plays the sweep.
func report(t *testing.T) {
	results, err := sweep(*seed)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nadmitted, %% of one exact limiter / %% of the limit in the worst period:\n\n%s", table(results))
	if *docs == "" {
		return
	}
	page := filepath.Join(*docs, "simulator.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := draw(results)
	if err != nil {
		t.Fatal(err)
	}
	small, err := fewTables(documentPercent)
	if err != nil {
		t.Fatal(err)
	}
	written := replaceTable(string(text), sweepBegins, table(results))
	written = replaceTable(written, fewBegins, small)
	for file, content := range map[string]string{page: written, filepath.Join(*docs, "simulator.svg"): drawn} {
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
