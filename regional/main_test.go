package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/wire"
)

var binary string

func TestMain(m *testing.M) { os.Exit(withBinary(m.Run)) }

// withBinary builds the program for the tests.
func withBinary(run func() int) (status int) {
	dir, err := os.MkdirTemp("", "weir-regional")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "weir-regional")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, out)
		return 1
	}
	return run()
}

const (
	tenRules   = "rules: [{ name: page, key: [client_ip], limit: 10/1h, algorithm: fixed_window, consistency: exact }]\n"
	wrongRules = "rules: [{ name: page, limit: lots }, { name: page, key: [], colour: red }]\n"
	allRegions = "rules: [{ name: page, key: [], limit: 10/1h, scope: global }]\n"
)

// process is a weir-regional that runs.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	rules  string // path
	dir    string // where it runs
	files  int    // most file descriptors; 0: as the test has
	quota  string // address
	admin  string
	done   chan error
	mu     sync.Mutex
	log    strings.Builder
	logged *sync.Cond
}

// startRegion starts the binary on free ports and waits until it serves.
func startRegion(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{t: t, done: make(chan error, 1), rules: filepath.Join(t.TempDir(), "rules.yaml")}
	p.begin(tenRules, args...)
	return p
}

// begin starts the binary with these rules.
func (p *process) begin(rules string, args ...string) {
	p.t.Helper()
	p.logged = sync.NewCond(&p.mu)
	p.setRules(rules)
	p.run(append([]string{"--rules", p.rules, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-wait", "0s"}, args...)...)
	line := p.waitFor("msg=serving")
	for _, field := range strings.Fields(line) {
		if at, ok := strings.CutPrefix(field, "listen="); ok {
			p.quota = "http://" + at
		}
		if at, ok := strings.CutPrefix(field, "admin="); ok {
			p.admin = "http://" + at
		}
	}
}

func (p *process) run(args ...string) {
	p.t.Helper()
	p.cmd = exec.Command(binary, args...)
	if p.files > 0 {
		p.cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, p.files), binary}, args...)...)
	}
	if p.dir == "" {
		p.dir = p.t.TempDir()
	}
	p.cmd.Dir = p.dir // its state file is there
	out, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.logged.Broadcast()
			p.mu.Unlock()
		}
	}()
	go func() { <-read; p.done <- p.cmd.Wait() }()
	p.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
}

// patience is how long tests wait for what comes in a moment, unless the machine is busy.
const patience = time.Minute

// waitFor waits for a line of the log with this text in it, and returns it.
func (p *process) waitFor(text string) string {
	p.t.Helper()
	begin := time.Now()
	deadline := time.AfterFunc(patience, func() { p.logged.Broadcast() })
	defer deadline.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, text) {
				return line
			}
		}
		if time.Since(begin) >= patience {
			p.t.Fatalf("no %q in the log:\n%s", text, p.log.String())
		}
		p.logged.Wait()
	}
}

func (p *process) setRules(text string) {
	p.t.Helper()
	next := p.rules + ".new"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, p.rules)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits for the process and returns its error.
func (p *process) ended() error {
	p.t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(patience):
		p.t.Fatalf("did not end; its log:\n%s", p.log.String())
		return nil
	}
}

func (p *process) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.Get(p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(body)
}

// limits are those of the rules in force that apply to any request.
func (p *process) limits() map[string]int64 {
	p.t.Helper()
	r, err := (&http.Client{Timeout: patience}).Post(p.admin+"/v1/explain", "application/json", strings.NewReader(`{"url": "/", "client": "192.0.2.1"}`))
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	var answer v1.Explanation
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	limits := map[string]int64{}
	for _, e := range answer.Rules {
		if e.Limit != nil {
			limits[e.Rule] = *e.Limit
		}
	}
	return limits
}

// http2Client speaks HTTP/2 without TLS, as Envoy does.
func http2Client() *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: &protocols}, Timeout: patience}
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

// A directory of rules is in force as a whole, follows its link, and a mistake in one of its files changes nothing.
func TestRulesDirectory(t *testing.T) {
	dir := t.TempDir()
	version := func(name string, files map[string]string) {
		t.Helper()
		err := os.Mkdir(filepath.Join(dir, name), 0o700)
		for file, text := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o600))
		}
		if err = errors.Join(err, os.Symlink(name, filepath.Join(dir, "..new")), os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	search := strings.Replace(tenRules, "page", "search", 1)
	version("..1", map[string]string{"page.yaml": tenRules, "search.yaml": search})
	p := startRegion(t, "--rules", dir)
	if got, want := p.limits(), map[string]int64{"page": 10, "search": 10}; !maps.Equal(got, want) {
		t.Errorf("in force: %v, want %v", got, want)
	}
	version("..2", map[string]string{"page.yaml": strings.Replace(tenRules, "10/1h", "20/1h", 1), "search.yaml": wrongRules})
	p.waitFor(filepath.Join(dir, "search.yaml") + ":1:")
	if got := p.limits(); got["page"] != 10 {
		t.Errorf("a part of the directory is in force: %v", got)
	}
	version("..3", map[string]string{"page.yaml": strings.Replace(tenRules, "10/1h", "30/1h", 1)})
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if got := p.limits(); maps.Equal(got, map[string]int64{"page": 30}) {
			break
		} else if time.Since(begin) > patience {
			t.Fatalf("in force: %v", got)
		}
	}
}

// More connections than the process has file descriptors do not keep it from reading its rules.
func TestFloodOfConnections(t *testing.T) {
	p := &process{t: t, done: make(chan error, 1), rules: filepath.Join(t.TempDir(), "rules.yaml"), files: 100}
	p.begin(tenRules)
	for range 200 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.quota, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil { // else it is cut soon
			t.Fatal(err)
		}
	}
	p.setRules(strings.Replace(tenRules, "10/1h", "20/1h", 1))
	for begin := time.Now(); p.limits()["page"] != 20; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("the new rules are not in force; the log:\n%s", p.log.String())
		}
	}
}

// A program starts with a variable that nothing reads, and its log names the one that is likely meant.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("WEIR_MAX_KYES", "5")
	startRegion(t).waitFor("did you mean WEIR_MAX_KEYS?")
}

func TestServes(t *testing.T) {
	for _, cache := range []string{"--lease-cache=off", "--lease-cache=on"} {
		p := startRegion(t, cache, "--log-format", "text")
		for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/v1/rules": "limit: 10/1h", "/metrics": "weir_rules_config_ok 1"} {
			if code, body := p.get(path); code != 200 || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		if g, err := p.acquire(http2Client(), 'a', 1, "k"); err != nil || g.Granted != 1 || g.Remaining != 9 {
			t.Errorf("proto over HTTP/2: %+v, %v", g, err)
		}
		r, err := http.Post(p.quota+quotapbconnect.QuotaServiceAcquireProcedure, "application/json", strings.NewReader(
			`{"protocol": 1, "holder": "YmJiYmJiYmJiYmJiYmJiYg==", "seq": 1, "wants": [{"rule": "page", "key": "aw==", "need": 1, "waiting": 1, "want": 1}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 200 || r.ProtoMajor != 1 || !bytes.Contains(body, []byte(`"granted"`)) || !bytes.Contains(body, []byte("STATUS_OK")) {
			t.Errorf("JSON over HTTP/1.1: %s %s", r.Status, body)
		}
		p.signal(syscall.SIGTERM)
		if err := p.ended(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
		p.waitFor("msg=ended")
	}
}

// Without an aggregator a region is well, unless rules need one.
func TestAggregatorAway(t *testing.T) {
	p := startRegion(t, "--region", "eu", "--global", "127.0.0.1:1")
	p.waitFor("does not answer")
	waitForStatus(t, p, `"degraded_ms":0`)
	p.setRules("rules: [{ name: page, key: [client_ip], limit: 10/1h, scope: global }]\n")
	waitForStatus(t, p, "the tier above has not answered")
}

// waitForStatus waits until the status has this text: just after its start a region has not heard itself.
func waitForStatus(t *testing.T, p *process, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if _, body := p.get("/v1/status?wait=1"); strings.Contains(body, text) {
			return
		} else if time.Now().After(end) {
			t.Fatalf("no %q in %s", text, body)
		}
	}
}

// While it drains it is not ready, takes calls for a while, and fails none.
func TestDrainUnderLoad(t *testing.T) {
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
	if code, body := p.get("/readyz"); code != 503 || !strings.Contains(body, "draining") {
		t.Errorf("/readyz while draining: %d %s", code, body)
	}
	all.Wait()
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	if answered.Load() == 0 || after.Load() == 0 || refused.Load() != 8 {
		t.Errorf("%d calls answered, %d of them while draining, %d of 8 callers saw the end", answered.Load(), after.Load(), refused.Load())
	}
}

// A connection that has asked nothing does not keep it from ending: an Envoy that starts
// connects for its health checks, and is busy for seconds before it asks. Meanwhile
// nobody could be answered. Who had to wait for the connection would do so for 5 s, and
// fail at the end of the drain.
func TestSilentConnectionHoldsNothingUp(t *testing.T) {
	p := startRegion(t, "--drain-timeout", "4s")
	silent, err := net.Dial("tcp", strings.TrimPrefix(p.quota, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := p.acquire(http2Client(), 'a', 1, "k"); err != nil { // it has been accepted before this one
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	if err := p.ended(); err != nil {
		t.Errorf("%v; its log:\n%s", err, p.log.String())
	}
}

// Two replicas cannot share memory.
func TestSecondReplicaIsNotReady(t *testing.T) {
	p := startRegion(t, "--replicas", "2")
	if code, body := p.get("/readyz"); code != 503 || !strings.Contains(body, "replicas: 2") || !strings.Contains(body, "run one replica") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	p.waitFor("run one replica")
}

// A mistake at the start ends the process with a message that names the remedy.
func TestRefusesToStart(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, wrong := write("good.yaml", tenRules), write("wrong.yaml", wrongRules)
	for name, c := range map[string]struct {
		args    []string
		message []string
	}{
		"port in use":       {[]string{"--rules", good, "--listen", busy.Addr().String()}, []string{"in use", "--listen"}},
		"admin port in use": {[]string{"--rules", good, "--listen", "127.0.0.1:0", "--admin-listen", busy.Addr().String()}, []string{"in use", "--admin-listen"}},
		"bad rules":         {[]string{"--rules", wrong}, []string{"wrong.yaml:1:", "lots", "colour"}},
		"no rules":          {nil, []string{"rules: is missing"}},
		"no aggregator":     {[]string{"--rules", write("global.yaml", allRegions)}, []string{"rule page: scope: global is counted by an aggregator"}},
		"rules not there":   {[]string{"--rules", filepath.Join(dir, "nosuch")}, []string{"nosuch"}},
		"no such host":      {[]string{"--rules", good, "--listen", "256.0.0.1:80"}, []string{"--listen 256.0.0.1:80"}},
		"state over rules":  {[]string{"--rules", good, "--state", dir + "/./good.yaml"}, []string{"state: ", "good.yaml", "is rules"}},
		"bad config":        {[]string{"--config", write("region.yaml", "max_key: 1\n")}, []string{"region.yaml:1: max_key", "max_keys"}},
	} {
		p := &process{t: t, done: make(chan error, 1)}
		p.logged = sync.NewCond(&p.mu)
		p.run(c.args...)
		var exit *exec.ExitError
		if err := p.ended(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit status 1", name, err)
		}
		for _, part := range c.message {
			if !strings.Contains(p.log.String(), part) {
				t.Errorf("%s: %s; want %q in it", name, p.log.String(), part)
			}
		}
	}
	if text, err := os.ReadFile(good); string(text) != tenRules {
		t.Errorf("the rules file is %q afterwards, %v", text, err)
	}
}
