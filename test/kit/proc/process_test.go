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

	"github.com/weirlimit/weir/test/kit/fatal"
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
	out := fatal.Get(test.StdoutPipe())(t)
	fatal.If(t, test.Start())
	line := fatal.Get(bufio.NewReader(out).ReadString('\n'))(t)
	pid := fatal.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
	if !running(pid) {
		t.Fatal("the sleeper did not start")
	}
	fatal.If(t, test.Process.Kill())
	_ = test.Wait() // killed, as it should be
	Eventually(t, 10*time.Second, "the sleeper is gone", func() bool { return !running(pid) })
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
