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
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/regions"
)

const rules = `
regions: { eu: 1, us: 1, ap: 1 }
rules:
  - { name: shared, match: { path: { prefix: /shared } }, key: [], limit: 20/1m, scope: global, on_failure: deny }
  - { name: fair, match: { path: { prefix: /fair } }, key: [], limit: 30/1m, scope: global, sharing: equal, on_failure: deny }
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
	w := regions.Start(p, regions.Config{Dir: p.Dir, Rules: rules})
	w.Unmark()
	w.SetTrip(trip)
	describe(out, w)
	for typed := lines(in); ; {
		select {
		case <-ctx.Done():
			fmt.Fprintln(out, "\nstopped")
			return nil
		case line, ok := <-typed:
			if !ok {
				typed = nil // nobody types; there is still Ctrl-C
			} else if err := do(ctx, w, line, out); line != "" && err != nil {
				fmt.Fprintln(out, err)
			}
		}
	}
}

// do does what was typed: a step by its number, or a single action. An error ends nothing.
func do(ctx context.Context, w *regions.World, line string, out io.Writer) (err error) {
	defer proc.Recover(&err)
	todo := step{[]string{line}, "done: " + line}
	if n, err := strconv.Atoi(line); err == nil && n > 0 && n <= len(steps) {
		todo = steps[n-1]
	}
	for _, command := range todo.commands {
		fmt.Fprintln(out, command)
		if shell, is := strings.CutPrefix(command, "$ "); is {
			cmd := exec.CommandContext(ctx, "bash", "-c", shell)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), addresses(w)...), out, out
			err = cmd.Run()
		} else {
			err = w.Do(command)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(out, todo.expect)
	return nil
}

// addresses are shell variables with a PoP of each region.
func addresses(w *regions.World) (all []string) {
	for _, r := range w.Regions {
		all = append(all, r.Name+"="+r.PoPs[0].Addr)
	}
	return append(all, "consul="+w.Regions[0].Consul.Servers[0].Addr)
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

// step is something to try.
type step struct {
	commands []string // actions of a world; with a leading $ commands of the shell, with variables of [addresses]
	expect   string   // what they print, and why
}

// Parts of commands: a request whose status is printed, and ten requests of the limit that the region eu has alone.
const (
	status   = "curl -s -o /dev/null -w '%{http_code} ' http://"
	askLocal = "$ for i in {1..10}; do " + status + "$eu/local; done; echo"
)

var steps = []step{
	{[]string{"$ for pop in $eu $us $ap; do for i in {1..10}; do " + status + "$pop/shared; done; echo; done"},
		"Expect 200 for 20 of the 30 requests, and then 429: one limit of 20 per minute over all regions."},
	{[]string{"$ for pop in $eu $us $ap; do (r=$(for i in {1..30}; do " + status + "$pop/fair; done); echo $r) & done; wait"},
		"Expect 200 for 30 of the 90 requests, about ten in each region: they share 30 per minute in equal parts."},
	{[]string{"cut us", "$ " + status + "$us/shared; " + status + "$eu/shared; echo", "heal us"},
		"Expect 503 in us: without the aggregator, us does not know what is left of a small limit, and on_failure is deny. In eu the limit\n" +
			"   decides: 200, or 429 after 20 requests in this minute. A PoP that has rejected the key in this minute answers 429, too."},
	{[]string{"kill the aggregators", "$ " + status + "$us/shared; " + status + "$eu/shared; echo", "start the aggregators"},
		"Expect 503 in both regions, for the same reason. Limits with on_failure: allow, and large limits on lease, still admit requests."},
	{[]string{askLocal, "kill redis of local in eu", askLocal, "start redis in eu", askLocal},
		"Expect 200 five times a minute, and then 429, also without a master of Redis: a key over its limit stays rejected."},
	{[]string{"kill the leader of consul in eu", askLocal, "start consul in eu"},
		"Expect 200 five times a minute, and then 429: no request waits for Consul, which has only rules and addresses."},
	{[]string{"apply limit 40/1m to shared", "$ for pop in $eu $us $ap; do for i in {1..20}; do " + status + "$pop/shared; done; echo; done",
		"$ bin/weir rules history --consul $consul"},
		"Expect 200 for 40 of the 60 requests: all PoPs have the new limit. The history names the change."},
}

// describe prints where everything is, and what to try.
func describe(out io.Writer, w *regions.World) {
	fmt.Fprintf(out, "\n%-12s %-37s %-37s %s\n", "region", "PoPs", "admin of the replicas", "Consul")
	for _, r := range w.Regions {
		fmt.Fprintf(out, "%-12s %-14s and %-18s %-14s and %-18s %s\n", r.Name, r.PoPs[0].Addr, r.PoPs[1].Addr,
			r.Replicas[0].Admin, r.Replicas[1].Admin, r.Consul.Servers[0].Addr)
	}
	fmt.Fprintf(out, "aggregators  dashboard http://%s/, metrics /metrics, %v from each region and back\n", w.Aggregators[0].Admin, trip)
	fmt.Fprintf(out, "\nTo try: type the number of a step, or one of its actions such as \"cut us\". In another terminal first set\n  %s\n",
		strings.Join(addresses(w), " "))
	for i, s := range steps {
		fmt.Fprintf(out, "\n%d. %s\n   %s\n", i+1, strings.Join(s.commands, "\n   "), s.expect)
	}
	fmt.Fprintln(out, "\nCtrl-C stops everything.")
}
