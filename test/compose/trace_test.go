package compose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// One trace, found in Jaeger, has the spans of the PoP, the region, Redis and the aggregator.
func traced(t *testing.T) {
	want := map[string]bool{"weir-pop": true, "weir-regional Acquire": true, "weir-regional EVALSHA": true, "weir-global Acquire": true}
	var id, missing string
	proc.Await(t, 3*time.Minute, "the trace of a request", func() string {
		id = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1)
		path := "/global/trace-" + id
		if status, _ := get(t, eu[0], path, "traceparent", "00-"+id+"-00f067aa0ba902b7-01"); status != http.StatusOK {
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

// spans are the services of a trace in Jaeger, and each with the names of its spans.
func spans(t *testing.T, id string) map[string]bool {
	t.Helper()
	answer, err := client.Get("http://" + jaegerAddr + "/api/traces/" + id)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var found struct {
		Data []struct {
			Processes map[string]struct{ ServiceName string }
			Spans     []struct{ OperationName, ProcessID string }
		}
	}
	if answer.StatusCode == http.StatusNotFound {
		return nil
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, trace := range found.Data {
		for _, s := range trace.Spans {
			service := trace.Processes[s.ProcessID].ServiceName
			seen[service] = true
			name := s.OperationName
			for i := len(name) - 1; i >= 0; i-- { // weir.v1.QuotaService/Acquire
				if name[i] == '/' {
					name = name[i+1:]
					break
				}
			}
			seen[service+" "+name] = true
		}
	}
	return seen
}
