package compose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// usConsulAddr is where docker-compose.yml publishes Consul of us.
const usConsulAddr = "127.0.0.1:8510"

// The home region is lost, the other one goes on with its share, becomes the home, shares the limit with the lost
// one when that is back, and hands the home back: by the commands of docs/home-region.md.
func homeLost(t *testing.T) {
	lose, move, back, home := practised(t)
	within := func(eu, us int) bool { return eu+us <= cutLimit }
	shared := func(eu, us int) bool { return eu > 0 && us > 0 && eu+us >= least98(cutLimit) }

	apply(t, rules(10005), "marker", 10005, both)
	bash(t, lose)
	awaitReserve(t, `sum(weir_reserve_in_use{region="us"})`, 2)
	awaitWindow(t, "us goes on with its share", func(_, us int) bool { return us == cutShare }, within, nil, us)

	bash(t, move)
	awaitReserve(t, `sum(weir_reserve_in_use{region="us"})`, 0)
	applyTo(t, usConsulAddr, rules(10006), "marker", 10006, us)
	awaitWindow(t, "us gets the whole limit", func(_, us int) bool { return us >= least98(cutLimit) }, within, nil, us)

	bash(t, back)
	applyTo(t, usConsulAddr, rules(10007), "marker", 10007, both)
	homeHolds(t, "us", within, shared)

	bash(t, home)
	apply(t, rules(10008), "marker", 10008, both)
	homeHolds(t, "eu", within, shared)
}

// homeHolds checks that both regions share limits, by the aggregator of the home region.
func homeHolds(t *testing.T, home string, within, shared func(eu, us int) bool) {
	t.Helper()
	awaitReserve(t, `sum(weir_reserve_in_use)`, 0)
	awaitReserve(t, `sum(weir_remote_up)`, 4) // by replica
	awaitWindow(t, "both share the limit, at home in "+home, shared, within, eu, us)
	if n := admitted(t, both, "/global/home-"+home+run, least98(100)); n > 100 {
		t.Errorf("all PoPs admitted %d of 100, at home in %s", n, home)
	}
}

// awaitReserve waits until the replicas that run report a number.
func awaitReserve(t *testing.T, query string, want float64) {
	t.Helper()
	proc.Await(t, patience, fmt.Sprint(query, " is ", want), func() string {
		if got, err := prometheus(t, query); err != nil || got != want {
			return fmt.Sprint(got, err)
		}
		return ""
	})
}

// practised are the blocks of commands of docs/home-region.md.
func practised(t *testing.T) (lose, move, back, home string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "docs", "home-region.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Practised with Docker\n")
	blocks := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(section, -1)
	if len(blocks) != 4 {
		t.Fatalf("docs/home-region.md has %d blocks of commands, want 4", len(blocks))
	}
	return blocks[0], blocks[1], blocks[2], blocks[3]
}

// bash runs commands in the root of the repository.
func bash(t *testing.T, commands string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-euxo", "pipefail", "-c", commands)
	cmd.Dir = proc.Root(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
