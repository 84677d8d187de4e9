package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consul"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// refusing is a server of Consul that can be made to refuse what is written, and a region that
// takes its rules from it.
type refusing struct {
	dir            string
	disk           string // directory of the server's data, with a small file system of its own
	consul         *consul.Agent
	writer, reader string // tokens of a person who applies rules, and of the region
	eu             *region.Region
	documents      int // that were made
}

// smallServer takes values of at most 128 KiB. Its log takes 1 MiB of the disk at a time, before it
// is written: by default that is 64 MiB.
const smallServer = `
limits { kv_max_value_size = 131072 }
raft_logstore { wal { segment_size_mb = 1 } }
`

func startRefusing(t *testing.T) *refusing {
	t.Helper()
	r := &refusing{dir: proc.LogDir(t)}
	settings := proc.WriteFile(t, filepath.Join(r.dir, "small.hcl"), smallServer)
	d := consul.StartDatacenter(t, consul.Config{Dir: r.dir, ACL: true, Command: func(data string, argv []string) []string {
		r.disk = data
		return onSmallDisk(data, append(argv, "-config-file", settings)...)
	}})
	r.consul = d.Servers[0]
	token := func(policy string) string {
		rules, err := os.ReadFile(filepath.Join(proc.Root(t), "consul", "policies", policy+".hcl"))
		if err != nil {
			t.Fatal(err)
		}
		return d.NewToken(string(rules))
	}
	r.writer, r.reader = token("weir-rules"), token("weir-regional")
	r.eu = region.New(t, region.Config{Dir: r.dir, Name: "eu", Flags: []string{
		"--rules", "consul:", "--consul", r.consul.Addr, "--consul-token-file", proc.WriteFile(t, filepath.Join(r.dir, "eu.token"), r.reader),
		"--region", "eu", "--state", "off", "--rules-copy", filepath.Join(r.dir, "eu.copy"),
	}})
	r.eu.Begin()
	proc.Await(t, time.Minute, "the region waits for rules", func() string {
		if _, text := r.eu.Ready(); !strings.Contains(text, "no rules yet") {
			return text
		}
		return ""
	})
	r.applies(t)
	r.eu.AwaitReady()
	return r
}

// onSmallDisk is a command line that runs argv with a file system of 8 MiB in a directory. It is
// in a namespace of argv, and goes away with it. Who is not root needs a kernel that lets users
// make namespaces.
func onSmallDisk(dir string, argv ...string) []string {
	unshare := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	const mounted = `mkdir -p "$0" && mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"`
	return append(append(unshare, "sh", "-c", mounted, dir), argv...)
}

// filler is the path, outside the server's namespace, of a file on its disk.
func (r *refusing) filler() string {
	return filepath.Join("/proc", strconv.Itoa(r.consul.PID()), "root", r.disk, "filler")
}

// fill leaves no byte of the server's disk.
func (r *refusing) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(r.filler())
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; { // a page of memory
		_, err = f.Write(block)
	}
	if closed := f.Close(); closed != nil || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err, closed)
	}
}

// document writes rules of about this many bytes, unlike all before.
func (r *refusing) document(t *testing.T, size int) (path string) {
	t.Helper()
	r.documents++
	text := fmt.Appendf(nil, "rules: [{ name: a, key: [client_ip], limit: %d/1m }]\n", r.documents)
	for len(text) < size {
		text = fmt.Appendf(text, "# %016x\n", rand.Uint64())
	}
	return proc.WriteFile(t, filepath.Join(r.dir, "rules.yaml"), string(text))
}

// weir runs the program with a token.
func (r *refusing) weir(t *testing.T, token string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return weir(t, r.consul.Addr, token, args...)
}

// history waits until Consul has a leader to ask.
func (r *refusing) history(t *testing.T) (text string) {
	t.Helper()
	proc.Await(t, time.Minute, "history", func() string {
		status, stdout, stderr := r.weir(t, r.writer, "history")
		if text = stdout; status != 0 {
			return stderr
		}
		return ""
	})
	return text
}

// apply applies a new document of about this many bytes. If it is applied, the region takes it
// and refusal is empty. Otherwise this is what the person sees, and all have what they had.
func (r *refusing) apply(t *testing.T, token string, size int) (refusal string) {
	t.Helper()
	path, history, rules := r.document(t, size), r.history(t), rulesOf(t, r.eu)
	status, stdout, stderr := r.weir(t, token, "apply", path, "--reason", "more")
	if status == 0 {
		_, revision, _ := strings.Cut(strings.TrimSpace(stdout), "revision ")
		proc.Await(t, time.Minute, "revision "+revision+" in the region", func() string {
			if now := rulesOf(t, r.eu); !strings.Contains(now, `"revision":`+revision+",") {
				return now
			}
			return ""
		})
		return ""
	}
	if place := "consul at " + r.consul.Addr + " "; status != 1 || !strings.Contains(stderr, place) || !strings.Contains(stderr, " weir/rules/") || stdout != "" {
		t.Errorf("weir apply: exit status %d, printed %q and %q, want %q with a key", status, stdout, stderr, place)
	}
	if strings.Contains(stderr, "it is unknown whether") {
		return stderr // the answer was lost
	}
	if now := r.history(t); now != history {
		t.Errorf("after %s the history is\n%s\nand was\n%s", stderr, now, history)
	}
	if now := rulesOf(t, r.eu); now != rules {
		t.Errorf("after %s the region has\n%s\nand had\n%s", stderr, now, rules)
	}
	return stderr
}

// applies waits until rules can be applied.
func (r *refusing) applies(t *testing.T) {
	t.Helper()
	proc.Await(t, time.Minute, "weir apply", func() string { return r.apply(t, r.writer, 100) })
}

// When Consul refuses new rules, who applies them reads what is wrong, where, and what to change.
// The region keeps the rules that are in force, and takes the next ones.
func TestRulesRefused(t *testing.T) {
	t.Parallel()
	r := startRefusing(t)
	check := func(t *testing.T, refusal string, want ...string) {
		t.Helper()
		t.Log(refusal)
		for _, w := range want {
			if !strings.Contains(refusal, w) {
				t.Errorf("weir apply printed %q without %q", refusal, w)
			}
		}
	}
	t.Run("token may only read", func(t *testing.T) {
		check(t, r.apply(t, r.reader, 100), "nothing was changed", "403", "give a token that may write this key")
		r.applies(t)
	})
	t.Run("value too large", func(t *testing.T) {
		check(t, r.apply(t, r.writer, 200<<10), "nothing was changed", "413", "kv_max_value_size and txn_max_req_len must be at least")
		r.applies(t)
	})
	t.Run("disk full", func(t *testing.T) {
		r.fill(t)
		var refusal string
		// Rules are applied until the log needs more of the disk. Something else may need it just
		// before: then Consul elects a leader again.
		proc.Await(t, time.Minute, "a refusal", func() string {
			refusal = r.apply(t, r.writer, 100<<10)
			if !strings.Contains(refusal, "no space left on device") {
				return "weir apply printed " + refusal
			}
			return ""
		})
		check(t, refusal, "500", "the disk of a Consul server is full", "data_dir")
		if err := os.Remove(r.filler()); err != nil {
			t.Fatal(err)
		}
		r.applies(t)
	})
}
