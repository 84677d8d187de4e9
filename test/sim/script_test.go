package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata; commit a change only if you can say why")

// TestScripts plays testdata/*.txt. A script is blocks of commands, a line of
// four dashes, and what the commands print: every message and decision, at
// milliseconds since the beginning. Lines that begin with # are comments.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playScript(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s: got\n%s\nIf you can explain the change, run go test -run Scripts -update.", file, firstDifference(string(text), got))
			}
		})
	}
}

// playScript returns the script with the output that it has now.
func playScript(t *testing.T, text string) (got string) {
	bubble(t, func(t *testing.T) { got = scriptIn(t, text) })
	return got
}

func scriptIn(t *testing.T, text string) string {
	s := &script{t: t, out: &bytes.Buffer{}}
	defer func() { s.w.Close() }()
	var done strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, _, found := strings.Cut(block, "\n----")
		s.out.Reset()
		for _, line := range strings.Split(commands, "\n") {
			if found && !strings.HasPrefix(line, "#") {
				s.command(strings.Fields(line))
			}
		}
		if i > 0 {
			done.WriteString("\n")
		}
		done.WriteString(commands + "\n")
		if found {
			done.WriteString("----\n" + s.out.String())
		}
	}
	return done.String()
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			return fmt.Sprintf("line %d: %s\nnot:     %s", i+1, g[i], strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(g), len(w))
}

// script is a run that commands drive.
type script struct {
	t     *testing.T
	out   *bytes.Buffer
	rules []*Rule
	w     *World
}

func (s *script) command(f []string) {
	if len(f) == 0 {
		return
	}
	verb, args := f[0], f[1:]
	if s.w == nil && verb != "rule" && verb != "world" {
		s.t.Fatalf("%q before world", verb)
	}
	switch verb {
	case "rule":
		s.rules = append(s.rules, s.rule(args))
	case "world":
		s.world(args)
	case "request":
		s.request(args)
	case "run":
		if err := s.w.Run(s.duration(args[0])); err != nil {
			fmt.Fprintln(s.out, err)
		}
	case "load":
		o := s.options(args[2:])
		r, key := s.target(args[1])
		rate, _ := strconv.ParseFloat(o["rate"], 64)
		s.w.Offer(s.number(args[0]), Load{Rate: rate, Parts: Key(r, key, 1)}, s.duration(o["for"]))
	case "quiet":
		s.w.Trace = nil
	case "cut", "heal":
		s.w.pops[s.number(args[0])-1].Link.Cut = verb == "cut"
	case "lose":
		net := &s.w.world.Net
		net.LoseReply, net.LoseCall = 0, 0
		switch args[0] {
		case "calls":
			net.LoseCall = 1
		case "replies":
			net.LoseReply = 1
		}
	case "repeat":
		s.w.world.Net.Repeat = map[string]float64{"on": 1}[args[0]]
	case "restart":
		s.restart(args[0])
	case "clock":
		s.w.StepClock(s.duration(args[0]))
	case "change":
		r, _ := s.target(args[0] + "/")
		s.w.Change(r, s.rule(args).Spec)
	case "slot":
		s.slot(args)
	case "counter":
		r, key := s.target(args[0])
		fmt.Fprintf(s.out, "left %d\n", s.w.counters.left(r, key))
	case "totals":
		r, key := s.target(args[0])
		n := s.w.Totals(r, key)
		fmt.Fprintf(s.out, "%d requests: %d units admitted, %d by one exact limiter; %d waited, %d asks, %d of them denied, %d units without an answer\n",
			n.Requests, n.Admitted, n.Exact, n.Waited, n.Asks, n.Denials, n.Degraded)
	default:
		s.t.Fatalf("unknown command %q", verb)
	}
}

// rule reads: NAME COUNT/PERIOD ALGORITHM [consistency] [burst=] [timeout=] [overdraft=] [on_failure=]
func (s *script) rule(args []string) *Rule {
	count, per, _ := strings.Cut(args[1], "/")
	n, _ := strconv.ParseInt(count, 10, 64)
	spec := limit.Spec{Count: n, Period: s.duration(per)}
	for a := limit.TokenBucket; a <= limit.SlidingLog; a++ {
		if a.String() == args[2] {
			spec.Algorithm = a
		}
	}
	o := s.options(args[3:])
	spec.Burst = s.integer(o["burst"])
	r := newRule(s.t, args[0], spec, map[string]lease.Consistency{"exact": lease.Exact, "optimistic": lease.Optimistic}[o["consistency"]])
	r.Timeout, r.Overdraft = lease.Millis(s.integer(o["timeout"])), s.integer(o["overdraft"])
	r.OnFailure = map[string]lease.OnFailure{"deny": lease.FailureDeny, "local": lease.FailureLocal}[o["on_failure"]]
	return r
}

func (s *script) world(args []string) {
	o := s.options(args)
	s.w = New(Config{
		PoPs: int(s.integer(o["holders"])), Relays: int(s.integer(o["relays"])), Depth: int(s.integer(o["depth"])), Steady: true, Trace: s.out,
		Net: Net{Delay: 2 * limit.Millisecond}, MaxCounters: int(s.integer(o["counters"])),
		Start: 20_000*limit.Day + 12*limit.Hour,
	}, s.rules...)
}

// request reads: HOLDER RULE/KEY [RULE/KEY] [cost=] [times=]
func (s *script) request(args []string) {
	o := s.options(args)
	var parts []Part
	for _, a := range args[1:] {
		if strings.Contains(a, "/") {
			r, key := s.target(a)
			parts = append(parts, Part{r, key, max(1, s.integer(o["cost"]))})
		}
	}
	for range max(1, s.integer(o["times"])) {
		s.w.pops[s.number(args[0])-1].request(parts...)
	}
}

func (s *script) restart(who string) {
	switch n := s.number(who); who[0] {
	case 'h':
		s.w.RestartPoP(n)
	case 'r':
		s.w.restart(s.w.replicas[n-1])
	default:
		s.w.RestartGranter()
	}
}

func (s *script) slot(args []string) {
	h := s.w.pops[s.number(args[0])-1]
	r, key := s.target(args[1])
	e := h.entry(r.counter(key))
	for _, lot := range e.Leases {
		if lot.Units > 0 {
			fmt.Fprintf(s.out, "lot of %d", lot.Units)
			if lot.From > h.Now() {
				fmt.Fprintf(s.out, " in %d ms", lot.From-h.Now())
			}
			fmt.Fprintf(s.out, " for %d ms\n", lot.Expiry-h.Now())
		}
	}
	fmt.Fprintf(s.out, "wants %d next", int64(1)<<e.WantLog2)
	if e.Least > 0 {
		fmt.Fprintf(s.out, ", denied %d and more", e.Least)
	}
	if e.Overdrawn > 0 {
		fmt.Fprintf(s.out, ", overdrawn %d", e.Overdrawn)
	}
	if e.Idle(&r.Terms, h.Now()) {
		fmt.Fprint(s.out, ", idle")
	}
	fmt.Fprintln(s.out)
}

func (s *script) target(arg string) (*Rule, string) {
	name, key, _ := strings.Cut(arg, "/")
	for _, r := range s.rules {
		if r.Name == name {
			return r, key
		}
	}
	s.t.Fatalf("no rule %q", name)
	return nil, ""
}

func (s *script) options(args []string) map[string]string {
	o := map[string]string{}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		o[k] = v
	}
	return o
}

func (s *script) number(who string) int {
	return int(s.integer(strings.TrimLeft(who, "abcdefghijklmnopqrstuvwxyz")))
}

func (s *script) integer(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if v != "" && err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(v string) limit.Micros {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return limit.Micros(d.Microseconds())
}
