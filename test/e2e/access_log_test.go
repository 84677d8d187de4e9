package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// A PoP starts with a socket as its standard output, as systemd gives it, and writes its access log there.
func TestAccessLogOnSocket(t *testing.T) {
	t.Parallel()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	defer func() { _ = theirs.Close() }()
	journal, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = journal.Close() }()
	_ = ours.Close() // journal is a copy

	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.OnlyListener("pop")
	// Without a region, and without an upstream, also beside `make run`, which has those of pop.yaml.
	for _, cluster := range []string{"weir_region", "upstream"} {
		e.Bootstrap.SetCluster(cluster, proc.FreeAddr(t))
	}
	e.Output = theirs
	e.Start()
	if r, err := stack.Do(e.Addr, http.MethodGet, "/seen", ""); err != nil || r.Status != http.StatusServiceUnavailable {
		t.Fatalf("%+v, %v, want 503", r, err)
	}
	if err := journal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(journal); ; {
		if !lines.Scan() {
			t.Fatalf("no line of the request on the socket: %v", lines.Err())
		}
		if strings.Contains(lines.Text(), `"path":"/seen"`) && strings.Contains(lines.Text(), `"status":503`) {
			return
		}
	}
}

// loggedRules are those of the lines in docs/access-log.md.
const loggedRules = `
rules:
  - { name: per-user, key: [{ header: x-user }], limit: 1000/1d, algorithm: fixed_window, timeout: 1s,
      overrides: [{ name: acme, key: [acme], limit: 1/1d }] }
  - { name: trial, mode: shadow, match: { path: /v1/trial }, key: [], limit: 2/1d, algorithm: fixed_window }
candidates:
  - { rule: per-user, limit: 1/1d, until: "2100-01-01T00:00:00Z" }
`

// The access log of docs/access-log.md is that of envoy/pop.yaml, and Envoy writes such lines: of a request that is admitted, of one that
// an override refuses, and of one that a candidate would refuse, which the PoP knows once its region has refused one.
func TestAccessLogPage(t *testing.T) {
	t.Parallel()
	proc.AwaitDay()
	page := shipped(t, "docs/access-log.md")
	if config := block(t, page, "yaml"); !strings.Contains(plain(shipped(t, "envoy/pop.yaml")), plain(config)) {
		t.Errorf("docs/access-log.md has another access log than envoy/pop.yaml:\n%s", config)
	}
	log := filepath.Join(t.TempDir(), "access.log")
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: loggedRules, Bootstrap: func(b *envoy.Bootstrap) { b.SetAccessLog(log) }})
	awaitRules(t, s)
	defer func() {
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("%s", text[:min(len(text), 4000)])
		}
	}()
	logged := func(path, user, line string) {
		t.Helper()
		want := entry(t, line)
		proc.Eventually(t, 10*time.Second, "the access log has "+line, func() bool {
			s.PoPs[0].Get(path, "x-user", user)
			text, _ := os.ReadFile(log)
			for got := range strings.Lines(string(text)) {
				if strings.HasSuffix(got, "\n") && reflect.DeepEqual(entry(t, got), want) {
					return true
				}
			}
			return false
		})
	}
	for i, line := range strings.Split(strings.TrimSpace(block(t, page, "")), "\n") {
		logged("/v1/orders", []string{"ann", "acme", "ann"}[i], line)
		if i == 2 {
			line = strings.NewReplacer("/orders", "/trial", "per-user@candidate", "trial,per-user@candidate").Replace(line)
			logged("/v1/trial", "ann", line)
		}
	}
}

// shipped is the text of a file of this repository.
func shipped(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is the first example of a page in a language that is not of commands.
func block(t *testing.T, page, language string) string {
	t.Helper()
	first := map[string]string{"yaml": "access_log:", "": "{"}[language]
	_, rest, found := strings.Cut(page, "\n```"+language+"\n"+first)
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatalf("docs/access-log.md has no example in %q that begins with %s", language, first)
	}
	return first + text
}

// plain is a text without comments and indentation.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// entry is a line of the access log without what each request has of its own.
func entry(t *testing.T, line string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	for _, own := range []string{"time", "client", "ms", "request"} {
		if fields[own] == nil {
			t.Errorf("no %s in %s", own, line)
		}
		delete(fields, own)
	}
	return fields
}

// A key of bytes that are no text is one line of text, and the same in the access log, in each command, in a rule and in the
// dashboard's API; no metric has it. So is one that an else has.
func TestOddKey(t *testing.T) {
	t.Parallel()
	proc.AwaitDay()
	const odd, address = `\x0d\x0a{"level":"error"}\x1b[2J\x00\xff\|\\h<img onerror>|ann`, `client_ip 127.0.0.1|ann`
	const rules = `
rules:
  - { name: odd, key: [{ query: q, else: client_ip }, { header: x-user }], limit: 1/1d, algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny,
      overrides: [{ key: ['` + odd + `'], limit: 2/1d }, { key: ['` + address + `'], limit: 2/1d }] }
`
	log := filepath.Join(t.TempDir(), "access.log")
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: rules, Bootstrap: func(b *envoy.Bootstrap) { b.SetAccessLog(log) }})
	awaitRules(t, s)
	weir := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), append(args, "--admin", s.Region.Admin, "-o", "json")...).CombinedOutput()
		if err != nil || !utf8.Valid(out) {
			t.Fatalf("weir %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for key, path := range map[string]string{odd: "/?q=%0d%0a{%22level%22:%22error%22}%1b[2J%00%ff%7c%5ch%3Cimg+onerror%3E", address: "/"} {
		get := func() int { return s.PoPs[0].Get(path, "x-user", "ann").Status }
		if got := []int{get(), get(), get()}; !slices.Equal(got, []int{200, 200, 429}) {
			t.Errorf("%s: %v, want two by the override", key, got)
		}
		shown := quoted(t, key)
		proc.Eventually(t, 10*time.Second, "the access log has "+shown, func() bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), `"key":`+shown)
		})
		proc.Eventually(t, time.Minute, "top has "+shown, func() bool {
			get()
			return strings.Contains(weir("top"), `"key": `+shown)
		})
		if got := weir("peek", "odd", key, "--no-watch"); !strings.Contains(got, `"remaining": 0`) || !strings.Contains(got, `"counted": `+shown) || !strings.Contains(got, `"own_limit": true`) {
			t.Errorf("peek: %s", got)
		}
		if got := weir("reset", "odd", key, "--reason", "a test"); !strings.Contains(got, `"remaining": 2`) {
			t.Errorf("reset: %s", got)
		}
	}
	for _, of := range []string{s.Region.Admin + "/metrics", s.PoPs[0].Admin + "/stats/prometheus"} {
		host, path, _ := strings.Cut(of, "/")
		r, err := stack.Do(host, http.MethodGet, "/"+path, "")
		if text := strings.ReplaceAll(string(r.Body), "\n", ""); err != nil || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "onerror") {
			t.Errorf("%s: %v, or it has the key, or control characters", of, err)
		}
	}
}

// quoted is a text as JSON.
func quoted(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
