package cgroup_test

import (
	"os/exec"
	"testing"

	"github.com/weirlimit/weir/test/kit/cgroup"
)

// What needs more memory than its group has is killed, and what needs less is not.
func TestLimit(t *testing.T) {
	for mib, killed := range map[string]int{"8": 0, "64": 1} {
		g := cgroup.New(t, 32<<20)
		argv := g.Command([]string{"dd", "if=/dev/zero", "of=/dev/null", "bs=" + mib + "M", "count=1"})
		out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
		if (err != nil) != (killed > 0) || g.Killed() != killed {
			t.Errorf("%s MiB of 32: %v, %d killed: %s", mib, err, g.Killed(), out)
		}
		if peak := g.Peak(); peak < 8<<20 || peak > 33<<20 {
			t.Errorf("%s MiB of 32: a peak of %d bytes", mib, peak)
		}
	}
}
