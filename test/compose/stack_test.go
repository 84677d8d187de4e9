// Package compose drives the stack of docker-compose.yml from outside, as a user does: requests
// to the published ports, `weir rules apply`, and docker. test/compose/run.sh (`make compose-test`)
// starts the stack before and takes it down afterwards.
package compose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Addresses that docker-compose.yml publishes.
const (
	consulAddr     = "127.0.0.1:8500"
	jaegerAddr     = "127.0.0.1:16686"
	prometheusAddr = "127.0.0.1:9090"
)

// patience is how long the stack may take for anything. It is there for a machine that has much
// else to do, and for programs that begin anew only after a back-off: rules reached a region that
// had been cut off within a second, or after 2 min 43 s, when its Consul had found the other one.
const patience = 8 * time.Minute

// pop is a PoP of the stack.
type pop struct{ name, addr string }

var (
	eu   = []pop{{"eu-pop-1", "127.0.0.1:10011"}, {"eu-pop-2", "127.0.0.1:10012"}}
	us   = []pop{{"us-pop-1", "127.0.0.1:10021"}, {"us-pop-2", "127.0.0.1:10022"}}
	both = slices.Concat(eu, us)
)

var client = http.Client{Timeout: 30 * time.Second}

// get asks a PoP once. Without an answer the status is 0.
func get(t *testing.T, p pop, path string, headers ...string) (status int, header http.Header) {
	t.Helper()
	answer, _, err := page.Get(t.Context(), &client, "http://"+p.addr+path, headers...)
	if err != nil {
		t.Logf("%s: GET %s: %v", p.name, path, err)
		return 0, nil
	}
	return answer.StatusCode, answer.Header
}

// apply puts rules in force, as a user does, by the Consul of a region, and waits until each of the PoPs has them: marker
// is a number that no rules had before.
func apply(t *testing.T, consul string, marker int, pops []pop) {
	t.Helper()
	file := proc.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules(marker))
	cmd := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "rules", "apply", file, "--consul", consul, "--reason", t.Name(), "--author", "test")
	start := time.Now()
	// After a cut Consul may need longer to reach another region than weir rules apply waits: the PoPs decide below.
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), " is in Consul") {
		t.Fatalf("weir rules apply: %v\n%s", err, out)
	}
	want := fmt.Sprintf(`"marker";q=%d`, marker)
	for _, p := range pops {
		proc.Await(t, patience, p.name+" has the rules", func() string {
			status, header := get(t, p, "/marker/a")
			if policy := header.Get("RateLimit-Policy"); !strings.Contains(policy, want) {
				return fmt.Sprintf("%d, RateLimit-Policy %q, want %s", status, policy, want)
			}
			return ""
		})
	}
	t.Logf("rules reached %d PoPs in %v", len(pops), time.Since(start).Round(10*time.Millisecond))
}

// limitHolds asks the PoPs in turn until they have admitted 98 % of a limit and then reject every request of
// a round, so that all of them have learned that the key is spent. They may not have admitted more than the limit.
func limitHolds(t *testing.T, pops []pop, path string, limit int) {
	t.Helper()
	n, least := 0, least98(limit)
	proc.Await(t, patience, fmt.Sprintf("%d of %s are admitted, and all others rejected", least, path), func() string {
		round := map[int]int{}
		for i := range 10 * len(pops) {
			status, _ := get(t, pops[i%len(pops)], path)
			round[status]++
		}
		n += round[http.StatusOK]
		if n < least || round[http.StatusTooManyRequests] < 10*len(pops) {
			return fmt.Sprintf("%d are, and the last answers were %v", n, round)
		}
		return ""
	})
	if n > limit {
		t.Errorf("%v admitted %d of %d below %s", pops, n, limit, path)
	}
}

func least98(limit int) int { return limit * 98 / 100 }

// prometheus is the one number that a query has for an answer; none is an error.
func prometheus(t *testing.T, query string) (float64, error) {
	t.Helper()
	body, err := page.Read(t.Context(), &client, "http://"+prometheusAddr+"/api/v1/query?query="+url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if n := len(answer.Data.Result); n != 1 {
		return 0, fmt.Errorf("%s has %d answers", query, n)
	}
	return strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
}

// One trace, found in Jaeger, has the spans of the PoP, the region, Redis and the aggregator. A key
// that a busy region did not decide in time lacks some, so another one is tried now and then.
func traced(t *testing.T) {
	const every = 10 * time.Second // programs send their spans every second, PoPs every five
	var ids []string
	var last time.Time
	proc.Await(t, patience, "the trace of a request", func() string {
		if time.Since(last) > every {
			id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1)
			if status, _ := get(t, eu[0], "/global/trace-"+id, "traceparent", "00-"+id+"-00f067aa0ba902b7-01"); status != http.StatusOK {
				return fmt.Sprint(status)
			}
			ids, last = append(ids, id), time.Now()
		}
		time.Sleep(500 * time.Millisecond)
		var lacks []string
		for _, id := range ids {
			lack := missing(t, id)
			if len(lack) == 0 {
				t.Logf("http://%s/trace/%s; before, traces lacked %v", jaegerAddr, id, lacks)
				return ""
			}
			lacks = append(lacks, fmt.Sprint(lack))
		}
		return fmt.Sprintf("in Jaeger traces lack %v", lacks)
	})
}

// missing are the spans that a trace in Jaeger lacks: all of them while Jaeger does not answer, or does not have the trace.
func missing(t *testing.T, id string) (names []string) {
	t.Helper()
	var found struct {
		Data []struct {
			Processes map[string]struct{ ServiceName string }
			Spans     []struct{ OperationName, ProcessID string }
		}
	}
	if body, err := page.Read(t.Context(), &client, "http://"+jaegerAddr+"/api/traces/"+id); err == nil {
		fatal.If(t, json.Unmarshal(body, &found))
	}
	seen := map[string]bool{}
	for _, trace := range found.Data {
		for _, s := range trace.Spans {
			service := trace.Processes[s.ProcessID].ServiceName
			seen[service] = true
			seen[service+" "+path.Base(s.OperationName)] = true // weir.v1.QuotaService/Acquire
		}
	}
	for _, name := range []string{"weir-pop", "weir-regional Acquire", "weir-regional EVALSHA", "weir-global Acquire"} {
		if !seen[name] {
			names = append(names, name)
		}
	}
	return names
}
