package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

const (
	tenRules   = "rules: [{ name: page, key: [client_ip], limit: 10/1h, algorithm: fixed_window, consistency: exact }]\n"
	wrongRules = "rules: [{ name: page, limit: lots }, { name: page, key: [], colour: red }]\n"
	allRegions = "rules: [{ name: page, key: [], limit: 10/1h, scope: global }]\n"
)

// process is a weir-regional that runs.
type process struct {
	*region.Region
	t     *testing.T
	quota string // URL
}

// startRegion starts a region of tenRules.
func startRegion(t *testing.T, flags ...string) *process {
	t.Helper()
	return start(t, region.Config{Rules: tenRules, Flags: append([]string{"--state", "off"}, flags...)})
}

// start starts a region and waits until it serves.
func start(t *testing.T, c region.Config) *process {
	t.Helper()
	c.Dir = proc.LogDir(t)
	p := &process{Region: region.New(t, c), t: t}
	p.quota = "http://" + p.Addr
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

// http2Client speaks HTTP/2 without TLS, as Envoy does.
func http2Client() *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: time.Minute}
}

// acquire asks for one unit of a key as the filter does.
func (p *process) acquire(c *http.Client, holder byte, seq uint64, key string) (wire.Grant, error) {
	req := wire.Request{Protocol: 1, Holder: bytes.Repeat([]byte{holder}, 16), Seq: seq,
		Wants: []wire.Want{{Rule: "page", Key: []byte(key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}}
	r, err := c.Post(p.quota+quotapbconnect.QuotaServiceAcquireProcedure, "application/proto", bytes.NewReader(req.Append(nil)))
	if err != nil {
		return wire.Grant{}, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return wire.Grant{}, err
	}
	var out wire.Response
	if err := out.Decode(body); r.StatusCode != 200 || err != nil || len(out.Grants) != 1 {
		return wire.Grant{}, fmt.Errorf("status %d: %s", r.StatusCode, body)
	}
	return out.Grants[0], nil
}

// More connections than the process has file descriptors do not keep it from reading its rules.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	p := start(t, region.Config{Rules: tenRules, Command: func(argv []string) []string {
		return append([]string{"sh", "-c", `ulimit -n 100 && exec "$0" "$@"`}, argv...)
	}})
	for range 200 {
		conn := fatal.Get(net.Dial("tcp", p.Addr))(t)
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil { // else it is cut soon
			t.Fatal(err)
		}
	}
	p.SetRules(strings.Replace(tenRules, "10/1h", "20/1h", 1))
	p.awaits("/v1/rules", "limit: 20/1h")
}

// A program starts with a variable that nothing reads, and its log names the one that is likely meant.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("WEIR_MAX_KYES", "5")
	startRegion(t).waitFor("did you mean WEIR_MAX_KEYS?")
}

// A region answers in both encodings and versions of HTTP, with its lease cache or without, and ends at a signal.
func TestServes(t *testing.T) {
	t.Parallel()
	for _, cache := range []string{"--lease-cache=off", "--lease-cache=on"} {
		p := startRegion(t, cache, "--log-format", "text")
		for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/v1/rules": "limit: 10/1h", "/metrics": "weir_rules_config_ok 1"} {
			if code, body := p.Probe(path); code != 200 || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		if g, err := p.acquire(http2Client(), 'a', 1, "k"); err != nil || g.Granted != 1 || g.Remaining != 9 {
			t.Errorf("proto over HTTP/2: %+v, %v", g, err)
		}
		r := fatal.Get(http.Post(p.quota+quotapbconnect.QuotaServiceAcquireProcedure, "application/json", strings.NewReader(
			`{"protocol": 1, "holder": "YmJiYmJiYmJiYmJiYmJiYg==", "seq": 1, "wants": [{"rule": "page", "key": "aw==", "need": 1, "waiting": 1, "want": 1}]}`)))(t)
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 200 || r.ProtoMajor != 1 || !bytes.Contains(body, []byte(`"granted"`)) || !bytes.Contains(body, []byte("STATUS_OK")) {
			t.Errorf("JSON over HTTP/1.1: %s %s", r.Status, body)
		}
		p.Stop()
		p.waitFor("msg=ended")
	}
}

// Without an aggregator a region is well, unless rules need one.
func TestAggregatorAway(t *testing.T) {
	t.Parallel()
	p := startRegion(t, "--region", "eu", "--aggregator", "127.0.0.1:1")
	p.waitFor("does not answer")
	p.awaits("/v1/status?wait=1", `"degraded_ms":0`)
	p.SetRules(allRegions)
	p.awaits("/v1/status?wait=1", "the aggregator has not answered")
}

// While it drains it is not ready, takes calls for a while, and fails none.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	p := startRegion(t, "--drain-wait", "5s") // until then a late test has seen it drain
	var answered, refused, after atomic.Int64
	draining := make(chan struct{})
	var all sync.WaitGroup
	for i := range 8 {
		c := http2Client()
		all.Go(func() {
			for seq := uint64(1); ; seq++ {
				_, err := p.acquire(c, byte('a'+i), seq, fmt.Sprint(i))
				var dial *net.OpError
				switch {
				case err == nil:
					answered.Add(1)
					select {
					case <-draining:
						after.Add(1)
					default:
					}
				case errors.As(err, &dial) && dial.Op == "dial":
					refused.Add(1) // it has ended: nothing was sent
					return
				default:
					t.Errorf("a call failed: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	p.signal(syscall.SIGTERM)
	p.waitFor("msg=draining")
	close(draining)
	if code, body := p.Probe("/readyz"); code != 503 || !strings.Contains(body, "draining") {
		t.Errorf("/readyz while draining: %d %s", code, body)
	}
	all.Wait()
	p.waitFor("msg=ended")
	if answered.Load() == 0 || after.Load() == 0 || refused.Load() != 8 {
		t.Errorf("%d calls answered, %d of them while draining, %d of 8 callers saw the end", answered.Load(), after.Load(), refused.Load())
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	fatal.If(p.t, syscall.Kill(p.PID(), s))
}

// A connection that has asked nothing does not keep it from ending: an Envoy that starts connects for its health
// checks, and is busy for seconds before it asks. To wait for it would take 5 s, longer than the drain may take.
func TestSilentConnectionHoldsNothingUp(t *testing.T) {
	t.Parallel()
	p := startRegion(t, "--drain-timeout", "4s")
	silent := fatal.Get(net.Dial("tcp", p.Addr))(t)
	defer silent.Close()
	if _, err := p.acquire(http2Client(), 'a', 1, "k"); err != nil { // it has been accepted before this one
		t.Fatal(err)
	}
	p.Stop()
	p.waitFor("msg=ended")
}

// A mistake at the start ends the process with a message that names the remedy.
func TestRefusesToStart(t *testing.T) {
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
