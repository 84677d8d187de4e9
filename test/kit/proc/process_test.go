package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
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

// state is how the kernel describes the process.
func state(t *testing.T, p *Process) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return string(stat)
}

func TestProcess(t *testing.T) {
	p := Start(t, t.TempDir(), "shell", "sh", "-c", "echo started; while :; do :; done")
	Eventually(t, 10*time.Second, "output in the log", func() bool { return p.Log() == "started\n" })
	Eventually(t, 10*time.Second, "CPU time", func() bool { return p.CPU() > 0 })
	if m := p.Memory(); m < 100<<10 || m > 1<<30 {
		t.Errorf("a shell uses %d bytes", m)
	}

	p.Pause()
	Eventually(t, 10*time.Second, "paused", func() bool { return strings.Contains(state(t, p), ") T ") })
	before := p.CPU()
	time.Sleep(100 * time.Millisecond)
	if used := p.CPU() - before; used > 0 {
		t.Errorf("used %v while paused", used)
	}
	p.Resume()
	Eventually(t, 10*time.Second, "CPU time again", func() bool { return p.CPU() > before })

	p.Stop()
	if !p.Exited() || syscall.Kill(p.cmd.Process.Pid, 0) == nil {
		t.Error("still there after Stop")
	}
}
