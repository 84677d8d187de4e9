package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sleeperEnv makes the test binary start a process, print its id and hang.
const sleeperEnv = "WEIR_PROC_TEST_SLEEPER"

// A test that is killed leaves no process behind.
func TestNothingSurvivesAKilledTest(t *testing.T) {
	if os.Getenv(sleeperEnv) != "" {
		p := Start(t, t.TempDir(), "sleeper", "sleep", "120")
		fmt.Println(p.cmd.Process.Pid)
		time.Sleep(time.Minute)
		return
	}
	test := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	test.Env = append(os.Environ(), sleeperEnv+"=1")
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !running(pid) {
		t.Fatal("the sleeper did not start")
	}
	if err := test.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = test.Wait() // killed, as it should be
	Eventually(t, 10*time.Second, "the sleeper is gone", func() bool { return !running(pid) })
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
