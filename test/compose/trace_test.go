package compose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// One trace, found in Jaeger, has the spans of the PoP, the region, Redis and the aggregator.
func traced(t *testing.T) {
	want := map[string]bool{"weir-pop": true, "weir-regional Acquire": true, "weir-regional EVALSHA": true, "weir-global Acquire": true}
	var id, missing string
	proc.Await(t, patience, "the trace of a request", func() string {
		id = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1)
		if status, _ := get(t, eu[0], "/global/trace-"+id, "traceparent", "00-"+id+"-00f067aa0ba902b7-01"); status != http.StatusOK {
			return fmt.Sprint(status)
		}
		// Programs send their spans every second, PoPs every five. A key that a busy region did
		// not decide in time lacks some, so another one is tried.
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
			seen := spans(t, id)
			missing = ""
			for name := range want {
				if !seen[name] {
					missing += " " + name + ","
				}
			}
			if missing == "" {
				return ""
			}
		}
		return "Jaeger lacks" + missing
	})
	t.Logf("http://%s/trace/%s", jaegerAddr, id)
}

// spans are the services of a trace in Jaeger, and each with the names of its spans; none while
// Jaeger does not answer, or does not know the trace.
func spans(t *testing.T, id string) map[string]bool {
	t.Helper()
	body, err := page.Read(t.Context(), &client, "http://"+jaegerAddr+"/api/traces/"+id)
	if err != nil {
		return nil
	}
	var found struct {
		Data []struct {
			Processes map[string]struct{ ServiceName string }
			Spans     []struct{ OperationName, ProcessID string }
		}
	}
	if err := json.Unmarshal(body, &found); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, trace := range found.Data {
		for _, s := range trace.Spans {
			service := trace.Processes[s.ProcessID].ServiceName
			seen[service] = true
			seen[service+" "+path.Base(s.OperationName)] = true // weir.v1.QuotaService/Acquire
		}
	}
	return seen
}
