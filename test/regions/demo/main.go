//go:build linux

// Demo starts the three regions of the end-to-end scripts for a person: `make run-regions`.
// It prints what to try, does what is typed, and stops everything on Ctrl-C.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/regions"
)

const rules = `
regions: { eu: 1, us: 1, ap: 1 }
rules:
  - { name: shared, match: { path: { prefix: /shared } }, key: [], limit: 20/1m, scope: global, on_failure: { action: deny, status: 429 } }
  - { name: fair, match: { path: { prefix: /fair } }, key: [], limit: 30/1m, scope: global, sharing: equal, on_failure: { action: deny, status: 429 } }
  - { name: local, match: { path: { prefix: /local } }, key: [], limit: 5/1m, algorithm: fixed_window }
`

// trip is how long a call to an aggregator and its reply take.
const trip = 100 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	p := &proc.Program{Ctx: ctx}
	defer p.Close()
	defer proc.Recover(&err)
	p.Dir = proc.NewDir(p, "regions")
	p.Cleanup(func() { _ = os.RemoveAll(p.Dir) })
	fmt.Fprintf(out, "three regions start, half a minute and more; logs are in %s\n", p.Dir)
	w := regions.Start(p, p.Dir, rules)
	w.SetTrip(trip)
	describe(out, w)
	typed := lines(in)
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(out, "\nstopped")
			return nil
		case line, ok := <-typed:
			if !ok {
				typed = nil // nobody types; there is still Ctrl-C
				continue
			}
			if err := do(w, line); err != nil {
				fmt.Fprintln(out, err)
			} else if line != "" {
				fmt.Fprintln(out, "done:", line)
			}
		}
	}
}

// do does what was typed. What cannot be done ends nothing.
func do(w *regions.World, line string) (err error) {
	defer proc.Recover(&err)
	if line == "" {
		return nil
	}
	return w.Do(line)
}

// lines reads lines until there are no more.
func lines(in io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(in); s.Scan(); {
			out <- s.Text()
		}
	}()
	return out
}

// tries are what can be typed, as describe shows them.
var tries = []string{"cut us", "heal us", "kill the aggregators", "start the aggregators",
	"kill redis of local in eu", "start redis in eu", "kill the leader of consul in eu", "start consul in eu", "apply limit 40/1m to shared"}

// describe prints where everything is, and what to try.
func describe(out io.Writer, w *regions.World) {
	fmt.Fprintf(out, "\n%-12s %-37s %-37s %s\n", "region", "PoPs", "admin of the replicas", "Consul")
	for _, r := range w.Regions {
		fmt.Fprintf(out, "%-12s %-14s and %-18s %-14s and %-18s %s\n", r.Name, r.PoPs[0].Addr, r.PoPs[1].Addr,
			r.Replicas[0].Admin, r.Replicas[1].Admin, r.Consul.Servers[0].Addr)
	}
	eu, us, ap := w.Regions[0].PoPs[0].Addr, w.Regions[1].PoPs[0].Addr, w.Regions[2].PoPs[0].Addr
	fmt.Fprintf(out, `aggregators  dashboard http://%s/, metrics /metrics, %v from each region and back

Try, in another terminal:
1. One limit of 20 per minute over all regions admits 20 of 30 requests:
     for pop in %s %s %s; do for i in {1..10}; do curl -s -o /dev/null -w '%%{http_code} ' http://$pop/shared; done; echo; done
2. Floods in all regions at once get about equal parts of 30 per minute:
     for pop in %[3]s %[4]s %[5]s; do (r=$(for i in {1..30}; do curl -s -o /dev/null -w '%%{http_code} ' http://$pop/fair; done); echo $r) & done; wait
3. Cut a region off: type "%s" here, ask there (a key that needs an aggregator is rejected), and type "%s":
     curl -i http://%[4]s/shared
4. Type "%[8]s", ask, and type "%[9]s"; in between requests of these small limits are rejected.
5. Lose the counter of a region's own limit of 5 per minute: ask first, type "%[10]s", and "%[11]s":
     for i in {1..10}; do curl -s -o /dev/null -w '%%{http_code} ' http://%[3]s/local; done; echo
6. Type "%[12]s" and "%[13]s": nobody waits for Consul.
7. Type "%[14]s", which puts rules into Consul with weir rules apply, and ask as in 1:
     bin/weir rules history --consul %[15]s
Ctrl-C stops everything.
`, w.Aggregators[0].Admin, trip, eu, us, ap, tries[0], tries[1], tries[2], tries[3], tries[4], tries[5], tries[6], tries[7],
		tries[8], w.Regions[0].Consul.Servers[0].Addr)
}
