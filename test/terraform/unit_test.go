package terraform

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/test/kit/cgroup"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// GiB are the memories of machines: c7g.large of a PoP has 4, t4g.small of a Consul server 2.
const GiB = 1 << 30

// unit is what a test applies of a unit of systemd, of a container: the user, the share of memory,
// and what may be written.
type unit struct {
	user     string
	memory   int64 // bytes
	writable []string
	argv     []string
}

// unit reads one of the machine's units. Its memory is a share of the machine's.
func (m *machine) unit(name string, memory int64) (u unit) {
	m.t.Helper()
	percent := int64(100) // without MemoryMax
	for line := range strings.Lines(m.units[name]) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "User":
			u.user = value
		case "ExecStart":
			u.argv = strings.Fields(value)
		case "ReadWritePaths":
			u.writable = append(u.writable, value)
		case "PrivateTmp":
			u.writable = append(u.writable, "/tmp") // which here is not its alone
		case "MemoryMax":
			if _, err := fmt.Sscanf(value, "%d%%", &percent); err != nil {
				m.t.Fatalf("%s: %s: %v", name, line, err)
			}
		}
	}
	if u.memory = memory * percent / 100; u.user == "" || u.argv == nil {
		m.t.Fatalf("%s has no user or no program:\n%s", name, m.units[name])
	}
	return u
}

// unshare is a namespace of mounts with the users of machines, as cloud-init makes them. The first
// argument is the directory of their files.
const unshare = `mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group || exit
`

// harden is what the units name, as far as it can be had without systemd: all is read-only but what is
// to be written (ProtectSystem), of devices there are few (PrivateDevices), no way leads to a right
// that the user does not have (NoNewPrivileges, CapabilityBoundingSet).
const harden = unshare + `mount -t tmpfs -o mode=755 devices /mnt && for d in null zero full random urandom; do touch /mnt/$d && mount --bind /dev/$d /mnt/$d || exit; done
ln -s /proc/self/fd/1 /mnt/stdout && mount --move /mnt /dev || exit
awk '{ print $5 }' /proc/self/mountinfo | grep -Ev '^/(proc|sys|dev)(/|$)' | while read -r at; do mount -n -o remount,bind,ro "$at" 2>/dev/null; done
for at in $WRITABLE; do mount -n --bind "$at" "$at" && mount -n -o remount,bind,rw "$at" || exit; done
! touch /etc/weir-test 2>/dev/null || { echo "/etc can be written"; exit 1; }
exec setpriv --reuid "$RUN_AS" --regid "$RUN_AS" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all --pdeathsig KILL -- "$@"`

// users returns a directory with the files of users and groups of this machine and those two of a
// machine of the module.
func users(t *testing.T, dir string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: units run as users of their own, in cgroups")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "setpriv", "--version").CombinedOutput(); err != nil {
		t.Skipf("needs namespaces of mounts: %v\n%s", err, out)
	}
	for file, lines := range map[string]string{
		"passwd": "weir:x:64001:64001::/:/usr/sbin/nologin\nconsul:x:64002:64002::/:/usr/sbin/nologin\nnonroot:x:65532:65532::/:/usr/sbin/nologin\n",
		"group":  "weir:x:64001:\nconsul:x:64002:\nnonroot:x:65532:\n",
	} {
		here := fatal.Get(os.ReadFile(filepath.Join("/etc", file)))(t)
		proc.WriteFile(t, filepath.Join(dir, file), lines+string(here))
	}
	return dir
}

// start runs a unit as systemd does: as its user, in a cgroup of its size, and with a socket as its
// output, of which its log is a copy.
func (u unit) start(t *testing.T, names, dir, name string) *proc.Process {
	t.Helper()
	argv := append([]string{"env", "RUN_AS=" + u.user, "WRITABLE=" + strings.Join(u.writable, " "), "unshare", "--mount", "--propagation", "private",
		"sh", "-c", harden, names}, u.argv...)
	p := proc.New(t, dir, name, cgroup.New(t, u.memory).Command(argv)...)
	ends := fatal.Get(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	ours := os.NewFile(uintptr(ends[0]), "journal")
	p.Output = os.NewFile(uintptr(ends[1]), "socket")
	p.Begin()
	_ = p.Output.Close() // the process has it
	log := fatal.Get(os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_WRONLY, 0))(t)
	go func() { // ends with the process
		_, _ = io.Copy(log, ours)
		_, _ = log.Close(), ours.Close()
	}()
	return p
}
