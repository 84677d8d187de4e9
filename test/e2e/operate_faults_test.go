package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// TestOperateFaults: what is away is named, a command that cannot be done states why, and PoPs go on deciding.
func TestOperateFaults(t *testing.T) {
	t.Parallel()
	proc.AwaitDay()
	w := startOperated(t)
	w.popAway()
	w.redisAway()
	w.consulAway()
	w.aggregatorAway()
}

// popAway: who does not get new rules is named, by the command that applies them, and by the status.
func (w *operated) popAway() {
	w.Helper()
	w.well(w.aggregator)
	w.links[2].Cut()
	out, _ := w.weir(3, "apply", w.rules("second"), "--admin", w.aggregator.Admin, "--reason", "a test", "--wait")
	if got := strings.Count(out, "not in force: "); got != 1 || !strings.Contains(out, "not in force: pop ap pop-3, ") {
		w.Errorf("weir apply --wait names %d: %s", got, out)
	}
	w.everywhere("the new rules", w.PoPs[:2], func(p *stack.PoP) bool { return p.Get("/second").Status == http.StatusTooManyRequests })
	w.decides("pop away", "/first", w.PoPs[2])
	w.links[2].Heal()
	w.everywhere("the new rules", w.PoPs[2:], func(p *stack.PoP) bool { return p.Get("/second").Status == http.StatusTooManyRequests })
	w.well(w.aggregator)
}

// redisAway: the region whose Redis is away is the one that is not well. It cannot show what its PoPs do.
func (w *operated) redisAway() {
	w.Helper()
	w.redis[1].Kill()
	unwell := func(s *v1.Status) (regions []string) {
		regions = slices.Clone(s.Silent)
		for _, m := range s.Members {
			if m.Kind == "region" && m.Redis != "ok" {
				regions = append(regions, m.Region)
			}
		}
		slices.Sort(regions)
		return slices.Compact(regions)
	}
	awaits(w, w.aggregator, func(s *v1.Status) string {
		if got := unwell(s); !slices.Equal(got, []string{"us"}) {
			return fmt.Sprintf("us is not well: %q", got)
		}
		return ""
	}, "status")
	if out, _ := w.weir(3, "status", "--admin", w.aggregator.Admin); !strings.Contains(out, "region us has not been heard") {
		w.Errorf("without the Redis of us: %s", out)
	}
	if _, problem := w.weir(1, "status", "--admin", w.replicas[1].Admin); !strings.Contains(problem, "store that the replicas share") {
		w.Errorf("at us, without its Redis: %s", problem)
	}
	w.decides("redis away", "/second", w.PoPs...)
	w.redis[1].Restart()
	w.well(w.aggregator)
}

// consulAway: a change is refused, and what is in force stays.
func (w *operated) consulAway() {
	w.Helper()
	w.consul.Stop()
	_, problem := w.weir(1, "override", "set", "closed", "ann", "--limit", "5/1d", "--until", "1h", "--reason", "a test", "--admin", w.aggregator.Admin)
	if !strings.Contains(problem, "consul at "+w.consul.Addr+" cannot") {
		w.Errorf("a change without Consul: %s", problem)
	}
	w.decides("consul away", "/second", w.PoPs...)
	awaits(w, w.aggregator, func(s *v1.Status) string {
		if got := names(s); !slices.Equal(got, operatedMembers) {
			return fmt.Sprintf("all members: %q", got)
		}
		return ""
	}, "status")
}

// aggregatorAway: a region shows itself.
func (w *operated) aggregatorAway() {
	w.Helper()
	w.aggregator.Stop()
	if _, problem := w.weir(1, "status", "--admin", w.aggregator.Admin); !strings.Contains(problem, w.aggregator.Admin) || !strings.Contains(problem, "refused") {
		w.Errorf("at an aggregator that is not there: %s", problem)
	}
	w.decides("aggregator away", "/second", w.PoPs...)
	awaits(w, w.replicas[1], func(s *v1.Status) string {
		if s.Of != "region us" || !slices.Equal(names(s), []string{"region us", "pop us pop-2"}) || s.Members[0].DegradedMs == 0 {
			return "region us alone, without the aggregator"
		}
		return ""
	}, "status")
}

// well waits until the status of a tier is that all is well.
func (w *operated) well(at *region.Region) {
	w.Helper()
	proc.Await(w, time.Minute, "all is well", func() string {
		out, problems, status := w.run("status", "--admin", at.Admin)
		if status != 0 {
			return fmt.Sprint(status, "\n", out, problems)
		}
		return ""
	})
}

// decides expects that PoPs decide: a key that was never seen, and requests that are always refused.
func (w *operated) decides(when, refused string, pops ...*stack.PoP) {
	w.Helper()
	for _, p := range pops {
		for path, want := range map[string]int{"/orders": http.StatusOK, refused: http.StatusTooManyRequests} {
			if r := p.Get(path, "x-user", when+" "+p.Name); r.Status != want {
				w.Errorf("%s, %s: %s: %d, want %d", when, p.Name, path, r.Status, want)
			}
		}
	}
}
