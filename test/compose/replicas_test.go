package compose

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// With the profile `replicas` the loss of a master costs seconds: its replica takes over.
func masterLost(t *testing.T) {
	docker(t, "compose", "--profile", "observability", "--profile", "replicas", "up",
		"--detach", "--wait", "--wait-timeout", "420", "eu-regional-1", "us-regional-1")
	for _, region := range []string{"eu", "us"} {
		if nodes := redisNodes(t, region+"-redis-2"); strings.Count(nodes, "slave") != 3 {
			t.Fatalf("%s has not three replicas:\n%s", region, nodes)
		}
	}
	docker(t, "compose", "stop", "us-redis-1")
	proc.Await(t, patience, "the replica of us-redis-1 is a master", func() string {
		nodes := redisNodes(t, "us-redis-2")
		for line := range strings.Lines(nodes) {
			if strings.Contains(line, ".34:6379") && strings.Contains(line, "master") {
				return ""
			}
		}
		return nodes
	})
	round := 0
	proc.Await(t, patience, "us decides keys of all masters", func() string {
		round++
		for i := range 20 {
			if status, _ := get(t, us[i%2], fmt.Sprintf("/region/lost-%s-%d-%d", run, round, i)); status != http.StatusOK {
				return fmt.Sprint(status)
			}
		}
		return ""
	})
	if n := admitted(t, us, "/region/d-"+run, least98(60)); n > 60 {
		t.Errorf("us admitted %d of 60 without us-redis-1", n)
	}
}

// redisNodes is what a node of Redis reports of its cluster.
func redisNodes(t *testing.T, service string) string {
	t.Helper()
	return docker(t, "compose", "exec", "-T", service, "valkey-cli", "cluster", "nodes")
}
