// Budget prints what the tree weighs beside what it should weigh, and fails where the tree is
// heavier than a ceiling. It runs at the root of the repository:
//
//	budget          the budgets, and each package of the programs
//	budget -names   also the exported names that only their own package uses
//
// Lines are all lines of a file. Generated code and tools/ are not counted. It also weighs
// bin/weir.wasm, which must be built.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// budget is one thing that is weighed.
type budget struct {
	title   string
	ceiling int // what the tree weighs today, rounded up: whoever takes something away lowers it
	target  int // what it should weigh
	weigh   func(t *tree) int
	remedy  string // what to do above the ceiling
}

// budgets has each of these numbers once for the repository.
var budgets = []budget{
	{"lines of production code", 65670, 30000, func(t *tree) int { return t.sum(production, "") }, lighter},
	{"  of these on the path of a lease", 13350, 8000, func(t *tree) int { return t.sum(production, leasePath...) }, lighter},
	{"lines of test/world, the tiers in virtual time", 1623, 1616, func(t *tree) int { return t.sum(simulated, "") }, lighter},
	{"lines of the dashboard, in TypeScript", 3510, 2500, func(t *tree) int { return t.page }, lighter},
	{"lines of tests", 61740, 45000, func(t *tree) int { return t.sum(tests, "") }, lighter},
	{"lines of test kit, conformance, simulator and load", 13985, 13000, func(t *tree) int { return t.sum(kit, "") }, lighter},
	{"files of the largest production package", mostFiles, mostFiles, (*tree).largest, lighter},
	{"exported names that only their own package uses", noCeiling, 0, func(t *tree) int { return len(t.unshared()) }, ""},
	{"bytes of bin/weir.wasm", moduleBytes * 105 / 100, 3_500_000, func(t *tree) int { return t.module }, smaller},
}

const (
	mostFiles = 12
	noCeiling = 1 << 30 // is printed and never fails

	// moduleBytes is the recorded size of weir.wasm. A change may make it 5 % larger, and then
	// records the new size. Envoy compiles the whole module at each start.
	moduleBytes = 4_381_587
)

// What to do above a ceiling.
const (
	lighter = "take something away, or raise the ceiling in tools/budget and state the reason in the commit"
	smaller = "take out of the filter what no PoP needs: `GOOS=wasip1 GOARCH=wasm go list -deps ./wasmfilter` lists its packages. " +
		"Where a change is worth 5 % more, record the new size as moduleBytes in tools/budget and state the reason in the commit"
)

// leasePath are the packages, with all below them, that a want and its grant pass in the tiers.
var leasePath = []string{
	"internal/lease", "internal/fair", "internal/engine", "internal/leasecache", "internal/service", "internal/aggregator",
	"internal/upstream", "internal/reserve",
}

func main() {
	names := flag.Bool("names", false, "list the exported names that only their own package uses")
	flag.Parse()
	t, err := read(".")
	if err == nil {
		err = report(os.Stdout, t, budgets)
	}
	for _, dir := range leasePath {
		if err == nil && t.sum(production, dir) == 0 {
			err = fmt.Errorf("there is no %s: correct leasePath in tools/budget", dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
	if *names {
		fmt.Println("\n" + strings.Join(t.unshared(), "\n"))
	}
}

// report writes the budgets and the packages. The error is what is above its ceiling, and what
// to do then.
func report(w io.Writer, t *tree, budgets []budget) (above error) {
	fmt.Fprintf(w, "%-52s %8s %8s %8s\n", "", "now", "ceiling", "target")
	for _, b := range budgets {
		now, ceiling := b.weigh(t), "-"
		if b.ceiling != noCeiling {
			ceiling = fmt.Sprint(b.ceiling)
		}
		fmt.Fprintf(w, "%-52s %8d %8s %8d\n", b.title, now, ceiling, b.target)
		if now > b.ceiling {
			above = errors.Join(above, fmt.Errorf("%s: %d, the most is %d: %s", strings.TrimSpace(b.title), now, b.ceiling, b.remedy))
		}
	}
	fmt.Fprintf(w, "\n%-52s %8s %8s\n", "production package", "lines", "files")
	for _, p := range t.packages {
		if p.files > 0 {
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-52s %8d %8d %8s", p.dir, p.lines[production], p.files, excess(p.files)), " "))
		}
	}
	return above
}

// excess is by how much a package has too many files; empty: it has not.
func excess(files int) string {
	if files <= mostFiles {
		return ""
	}
	return fmt.Sprintf("+%d", files-mostFiles)
}

// sum are the lines of a kind in the directories and all below them; "" is the root.
func (t *tree) sum(k kind, dirs ...string) (lines int) {
	for _, p := range t.packages {
		if slices.ContainsFunc(dirs, func(dir string) bool { return within(p.dir, dir) }) {
			lines += p.lines[k]
		}
	}
	return lines
}

func (t *tree) largest() (files int) {
	for _, p := range t.packages {
		files = max(files, p.files)
	}
	return files
}

// within reports whether a directory is root or below it.
func within(dir, root string) bool {
	return root == "" || dir == root || strings.HasPrefix(dir, root+"/")
}
