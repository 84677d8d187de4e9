package proc

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestPortsOfTwoProcesses: processes that run side by side get no port twice.
func TestPortsOfTwoProcesses(t *testing.T) {
	const ports, processes = 500, 5
	if os.Getenv("PRINT_PORTS") != "" {
		for range ports {
			println("port", FreePort(t))
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other processes have theirs
		return
	}
	seen := map[int]int{}
	for n := range processes {
		c := exec.Command(os.Args[0], "-test.run", "^TestPortsOfTwoProcesses$")
		c.Env = append(os.Environ(), "PRINT_PORTS=1")
		in := fatal.Get(c.StdinPipe())(t)
		out := fatal.Get(c.StderrPipe())(t)
		fatal.If(t, c.Start())
		t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
		lines := bufio.NewScanner(out)
		for range ports {
			if !lines.Scan() {
				t.Fatalf("process %d ended early: %v", n, lines.Err())
			}
			port := fatal.Get(strconv.Atoi(strings.TrimPrefix(lines.Text(), "port ")))(t)
			if other, ok := seen[port]; ok {
				t.Errorf("port %d: processes %d and %d", port, other, n)
			}
			seen[port] = n
		}
	}
}
