package compose

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

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
