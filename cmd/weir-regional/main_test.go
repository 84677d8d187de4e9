package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

const (
	tenRules   = "rules: [{ name: page, key: [client_ip], limit: 10/300d, algorithm: fixed_window, consistency: exact }]\n"
	wrongRules = "rules: [{ name: page, limit: lots }, { name: page, key: [], colour: red }]\n"
	allRegions = "rules: [{ name: page, key: [], limit: 10/1h, scope: global }]\n"
)

// process is a weir-regional that runs.
type process struct {
	*region.Region
	t *testing.T
}

// start starts a region of tenRules and waits until it serves.
func start(t *testing.T, flags ...string) *process {
	t.Helper()
	return startAs(t, nil, append([]string{"--state", "off"}, flags...)...)
}

// startAs starts a region of tenRules by another command line.
func startAs(t *testing.T, command func(argv []string) []string, flags ...string) *process {
	t.Helper()
	p := &process{t: t, Region: region.New(t, region.Config{Dir: proc.LogDir(t), Rules: tenRules, Flags: flags, Command: command})}
	p.Begin()
	p.waitFor("msg=serving")
	return p
}

// waitFor waits for a line of the log with this text in it, and returns it.
func (p *process) waitFor(text string) (found string) {
	p.t.Helper()
	proc.Await(p.t, time.Minute, text+" in the log", func() string {
		for line := range strings.Lines(p.Log()) {
			if strings.Contains(line, text) {
				found = line
				return ""
			}
		}
		return "the log ends with " + p.Tail(10)
	})
	return found
}

// awaits waits until a path of the admin port answers with this text.
func (p *process) awaits(path, text string) {
	p.t.Helper()
	proc.Await(p.t, time.Minute, path+" has "+text, func() string {
		if _, got := p.Probe(path); !strings.Contains(got, text) {
			return "it has " + got
		}
		return ""
	})
}

// acquire asks for units of one key as a PoP does; 0 asks what is left.
func (p *process) acquire(holder byte, seq, units uint64) (answer *quotav1.AcquireResponse, grant *quotav1.Grant) {
	p.t.Helper()
	r := fatal.Get(quotav1connect.NewQuotaServiceClient(p.HTTP, "http://"+p.Addr).Acquire(p.t.Context(), connect.NewRequest(&quotav1.AcquireRequest{
		Protocol: 1, Holder: bytes.Repeat([]byte{holder}, 16), Seq: seq, Wants: []*quotav1.Want{{Rule: "page", Key: []byte("k"), Need: units, Waiting: units, Want: units}},
	})))(p.t)
	return r.Msg, r.Msg.GetGrants()[0]
}

// More connections than the process has file descriptors do not keep it from reading its rules.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	p := startAs(t, func(argv []string) []string {
		return append([]string{"sh", "-c", `ulimit -n 100 && exec "$0" "$@"`}, argv...)
	})
	for range 200 {
		conn := fatal.Get(net.Dial("tcp", p.Addr))(t)
		t.Cleanup(func() { _ = conn.Close() })
		_ = fatal.Get(io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t) // else it is cut soon
	}
	p.SetRules(strings.Replace(tenRules, "10/300d", "20/300d", 1))
	p.awaits("/v1/rules", "limit: 20/300d")
}

// A program starts with a variable that nothing reads, and its log names the one that is likely meant.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("WEIR_MAX_KYES", "5")
	start(t).waitFor("did you mean WEIR_MAX_KEYS?")
}

// Without an aggregator a region is well, unless rules need one.
func TestAggregatorAway(t *testing.T) {
	t.Parallel()
	p := start(t, "--region", "eu", "--aggregator", "127.0.0.1:1")
	p.waitFor("does not answer")
	p.awaits("/v1/status?wait=1", `"degraded_ms":0`)
	p.SetRules(allRegions)
	p.awaits("/v1/status?wait=1", "the aggregator has not answered")
}

// A connection that has asked nothing does not keep it from ending: an Envoy that starts connects for its health
// checks, and is busy for seconds before it asks. To wait for it would take 5 s, longer than the drain may take.
func TestSilentConnectionHoldsNothingUp(t *testing.T) {
	t.Parallel()
	p := start(t, "--drain-timeout", "4s")
	silent := fatal.Get(net.Dial("tcp", p.Addr))(t)
	defer silent.Close()
	p.acquire('a', 1, 1) // it has been accepted before this one
	p.Stop()
	p.waitFor("msg=ended")
}

// A mistake at the start ends the process with a message that names the remedy.
func TestDoesNotStart(t *testing.T) {
	busy := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	dir := t.TempDir()
	write := func(name, text string) string { return proc.WriteFile(t, filepath.Join(dir, name), text) }
	good := write("good.yaml", tenRules)
	for name, c := range map[string]struct {
		args    []string
		message []string
	}{
		"port in use":       {[]string{"--rules", good, "--listen", busy.Addr().String()}, []string{"in use", "--listen"}},
		"admin port in use": {[]string{"--rules", good, "--listen", "127.0.0.1:0", "--admin-listen", busy.Addr().String()}, []string{"in use", "--admin-listen"}},
		"bad rules":         {[]string{"--rules", write("wrong.yaml", wrongRules)}, []string{"wrong.yaml:1:", "lots", "colour"}},
		"no aggregator":     {[]string{"--rules", write("global.yaml", allRegions)}, []string{"rule page: scope: global is counted by an aggregator"}},
		"no such host":      {[]string{"--rules", good, "--listen", "256.0.0.1:80"}, []string{"--listen 256.0.0.1:80"}},
		"state over rules":  {[]string{"--rules", good, "--state", dir + "/./good.yaml"}, []string{"state: ", "good.yaml", "is rules"}},
		"bad config":        {[]string{"--config", write("region.yaml", "max_key: 1\n")}, []string{"region.yaml:1: max_key", "max_keys"}},
	} {
		cmd := exec.Command(region.Program(t), c.args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit status 1", name, err)
		}
		for _, part := range c.message {
			if !strings.Contains(string(out), part) {
				t.Errorf("%s: %s; want %q in it", name, out, part)
			}
		}
	}
	if text, err := os.ReadFile(good); string(text) != tenRules {
		t.Errorf("the rules file is %q afterwards, %v", text, err)
	}
}
