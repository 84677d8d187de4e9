// Mutants measures what the tests of a package notice. It changes what decides in small ways: it negates a comparison,
// moves a bound by one, swaps plus and minus, times and divided by, and in the Lua scripts also drops a statement. Then it
// runs the package's own tests for each change. It runs at the root of the repository:
//
//	mutants                      a row for each package of samples
//	mutants internal/lease/...   these packages, with each mutant that lived
//
// A mutant is killed if a test fails, panics, or runs out of time. The score of a package is killed ÷ all. All mutants of a
// package are in one test binary, and MUTANT chooses one, so that a mutant costs one run of the tests and no build.
// Nothing is written into the tree.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// samples are the packages that decide. A large package has at most -most mutants, evenly spaced over its files.
var samples = []string{
	"internal/limit",
	"internal/lease", "internal/lease/granter", "internal/lease/holder", "internal/lease/relay", "internal/lease/rounds",
	"internal/reserve", "internal/fair", "internal/wire", "internal/leasecache",
	"internal/engine", "internal/engine/memory", "internal/engine/table",
	"internal/upstream", "internal/upstream/client", "internal/aggregator", "internal/service",
	"internal/rule", "internal/rule/check", "internal/rule/read", "internal/rule/ip", "internal/rule/strict", "internal/shed",
	"wasmfilter/edge", "wasmfilter/edge/pop", "wasmfilter/edge/response", "wasmfilter/edge/rulebook", "wasmfilter/edge/shedding",
	"wasmfilter/edge/table", "wasmfilter/edge/topkeys", "wasmfilter/edge/uplink",
	scripts,
}

// A mutant is one change and where it is.
type mutant struct {
	id     int // from 1
	place  string
	change string
}

// A subject is a package whose tests can run with one of its mutants.
type subject struct {
	mutants []mutant

	// run reports whether the tests pass with a mutant, 0 for none, within a time.
	run func(id int, limit time.Duration) (pass bool)
}

func main() {
	most := flag.Int("most", 150, "mutants of a package, at most")
	workers := flag.Int("workers", runtime.NumCPU(), "tests that run side by side")
	flag.Parse()
	// A mutant that allocates without end dies alone.
	const memory = 8 << 30
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory})
	failed := false
	for _, dir := range samples {
		if flag.NArg() > 0 && !slices.ContainsFunc(flag.Args(), func(pattern string) bool { return matches(pattern, dir) }) {
			continue
		}
		if err := measure(dir, *most, *workers, flag.NArg() > 0); err != nil {
			fmt.Fprintf(os.Stderr, "mutants: %s: %v\n", dir, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// matches reports whether a pattern, a directory or one with /..., names a directory.
func matches(pattern, dir string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == tree || strings.HasPrefix(dir, tree+"/")
	}
	return dir == strings.TrimSuffix(pattern, "/")
}

// measure prints the row of a package, and the mutants that lived if they are wanted.
func measure(dir string, most, workers int, survivors bool) error {
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	build := goSubject
	if dir == scripts {
		build, most = luaSubject, min(most, mostScripts)
	}
	s, err := build(dir, folder)
	if err != nil {
		return err
	}
	start := time.Now()
	if !s.run(0, 10*time.Minute) {
		return fmt.Errorf("its tests fail without a mutant")
	}
	// Beside other programs a run takes longer than the first; only a mutant that hangs takes eight times as long.
	limit := max(15*time.Second, 8*time.Since(start))
	sample := spaced(s.mutants, most)
	lived := survivorsOf(s, sample, workers, limit)
	killed := len(sample) - len(lived)
	fmt.Printf("| `%s` | %d of %d | %d | %d | %d %% |\n", dir, len(sample), len(s.mutants), killed, len(lived), 100*killed/max(1, len(sample)))
	for _, m := range lived {
		if survivors {
			fmt.Printf("    %s: %s\n", m.place, m.change)
		}
	}
	return nil
}

// spaced are at most n of the mutants, evenly spaced.
func spaced(all []mutant, n int) []mutant {
	if len(all) <= n {
		return all
	}
	sample := make([]mutant, n)
	for i := range sample {
		sample[i] = all[i*len(all)/n]
	}
	return sample
}

// survivorsOf runs the tests for each mutant and returns those that no test noticed, in the order of the sample.
func survivorsOf(s subject, sample []mutant, workers int, limit time.Duration) (lived []mutant) {
	queue := make(chan mutant)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for m := range queue {
				if s.run(m.id, limit) {
					mu.Lock()
					lived = append(lived, m)
					mu.Unlock()
				}
			}
		})
	}
	for _, m := range sample {
		queue <- m
	}
	close(queue)
	wg.Wait()
	slices.SortFunc(lived, func(a, b mutant) int { return cmp.Compare(a.id, b.id) })
	return lived
}
