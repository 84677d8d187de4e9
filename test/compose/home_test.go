package compose

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// The limit of the rule `cut`, and the share of it that each region has.
const (
	cutWindow  = 10 * time.Second
	cutLimit   = 40
	cutShare   = 20
	cutWindows = 12 // that are tried: a busy machine spoils some
)

// usConsulAddr is where docker-compose.yml publishes Consul of us.
const usConsulAddr = "127.0.0.1:8510"

// The home region is lost, the other one goes on with its share, becomes the home, shares the limit with the lost
// one when that is back, and hands the home back: by the commands of docs/home-region.md.
func homeLost(t *testing.T) {
	lose, move, back, home := practised(t)
	apply(t, consulAddr, 10005, both)
	bash(t, lose)
	awaitReserve(t, `sum(weir_reserve_in_use{region="us"})`, 2) // by replica
	awaitWindow(t, cutShare, cutShare)

	bash(t, move)
	awaitReserve(t, `sum(weir_reserve_in_use{region="us"})`, 0)
	apply(t, usConsulAddr, 10006, us)
	awaitWindow(t, least98(cutLimit), cutLimit)

	bash(t, back)
	apply(t, usConsulAddr, 10007, both)
	homeHolds(t, "us")

	bash(t, home)
	apply(t, consulAddr, 10008, both)
	homeHolds(t, "eu")
}

// homeHolds checks that both regions share a limit, by the aggregator of the home region.
func homeHolds(t *testing.T, home string) {
	t.Helper()
	awaitReserve(t, `sum(weir_reserve_in_use)`, 0)
	awaitReserve(t, `sum(weir_aggregator_up)`, 4) // by replica
	limitHolds(t, both, "/global/home-"+home+run, 100)
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

// awaitWindow asks the PoPs of us through windows of the rule `cut`, each from a second after its begin until two seconds
// before its end, until they admit at least and at most so many requests in one.
func awaitWindow(t *testing.T, least, most int) {
	t.Helper()
	var seen []int
	for range cutWindows {
		begin, n := time.Now().Truncate(cutWindow).Add(cutWindow), 0
		time.Sleep(time.Until(begin.Add(time.Second)))
		for i := 0; time.Now().Before(begin.Add(cutWindow - 2*time.Second)); i++ {
			if status, _ := get(t, us[i%len(us)], "/cut/"+run); status == http.StatusOK {
				n++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if seen = append(seen, n); n >= least && n <= most && time.Now().Before(begin.Add(cutWindow)) {
			return
		}
	}
	t.Errorf("no window admitted %d to %d: %v", least, most, seen)
}

// practised are the blocks of commands of docs/home-region.md.
func practised(t *testing.T) (lose, move, back, home string) {
	t.Helper()
	_, section, _ := strings.Cut(content(t, "docs/home-region.md"), "## Practised with Docker\n")
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
	t.Log(proc.Run(t, cmd))
}
