package proc

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestPortsOfTwoProcesses: processes that run side by side get no port twice.
func TestPortsOfTwoProcesses(t *testing.T) {
	const ports, processes = 2*block + 1, 5
	if os.Getenv("PRINT_PORTS") != "" {
		for range ports {
			println("port", FreePort(t))
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other processes have theirs
		return
	}
	seen := map[int]int{}
	note := func(process, port int) {
		if other, ok := seen[port]; ok {
			t.Errorf("port %d: processes %d and %d", port, other, process)
		}
		seen[port] = process
	}
	for n := range processes {
		c := exec.Command(os.Args[0], "-test.run", "^TestPortsOfTwoProcesses$")
		c.Env = append(os.Environ(), "PRINT_PORTS=1")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
		lines := bufio.NewScanner(out)
		for range ports {
			if !lines.Scan() {
				t.Fatalf("process %d ended early: %v", n, lines.Err())
			}
			port, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "port "))
			if err != nil {
				t.Fatal(err)
			}
			note(n, port)
		}
	}
}
