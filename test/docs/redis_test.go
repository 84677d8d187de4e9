package docs

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// redisDocument has commands for Redis that are run.
const redisDocument = "docs/redis.md"

func redisCommands(d *Document) (all []string) {
	for i := range d.Blocks {
		for _, c := range commandsOf(&d.Blocks[i]) {
			if text, _, _ := strings.Cut(c.Text, " #"); d.Blocks[i].Lang == "" && strings.Contains(text, "redis-cli ") {
				all = append(all, strings.TrimSpace(text))
			}
		}
	}
	return all
}

// What the documents ask to do at Redis works on a cluster: each command finds the key,
// wherever it is.
func TestRedisCommands(t *testing.T) {
	const key = "weir:{login:203.0.113.195}0.ea600.1"
	c := redistest.StartCluster(t, 3, 0)
	owner := c.MasterOf(key)
	owner.Do("SET", key, "x", "EX", "60")
	other := c.Nodes[0]
	if other == owner {
		other = c.Nodes[1] // what is asked first does not have it
	}
	_, port, _ := strings.Cut(other.Addr, ":")
	commands := redisCommands(Parse(redisDocument, read(t, redisDocument)))
	if len(commands) < 3 {
		t.Fatalf("only %d commands are found: %q", len(commands), commands)
	}
	for _, command := range commands {
		here := strings.ReplaceAll(command, "-h 10.0.0.1", "-h 127.0.0.1 -p "+port)
		if strings.Contains(here, "10.0.0.") || !strings.Contains(command, "weir:{login:203.0.113.195}") {
			t.Errorf("%s: no check is written for its servers, or its key", command)
			continue
		}
		out, err := exec.Command("bash", "-euo", "pipefail", "-c", here).CombinedOutput()
		printed := strings.TrimSpace(string(out))
		found := printed == key || strings.Contains(command, "keyslot") && printed == fmt.Sprint(topology.SlotOf(key)) ||
			strings.Contains(command, "pttl") && len(printed) == 5 // tens of thousands of ms
		if err != nil || !found {
			t.Errorf("%s: %v, printed %q", command, err, printed)
		}
	}
}
