package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consul"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// weir runs the command line tool with an agent of Consul and a token; empty: without one.
func weir(t *testing.T, agent, token string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(proc.Built(t, "bin/weir", "build"), append(args, "--consul", agent)...)
	cmd.Env = append(os.Environ(), "CONSUL_HTTP_TOKEN="+token)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the status is looked at
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// rulesOf are the rules that a region has in force, as it shows them.
func rulesOf(t *testing.T, r *region.Region) string {
	t.Helper()
	_, body, err := page.Get(t.Context(), r.HTTP, "http://"+r.Admin+"/rules")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// startGate starts a way to an agent, and returns its address. It holds the first transaction until
// there is a second, and then lets all pass: both writers have read what is in force before one of
// them replaces it.
func startGate(t *testing.T, agent string) string {
	t.Helper()
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: agent})
	var came atomic.Int64
	both := make(chan struct{})
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/txn") {
			if came.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
			case <-time.After(time.Minute): // longer than a writer tries
				http.Error(w, "there is no second writer", http.StatusServiceUnavailable)
				return
			}
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(gate.Close)
	return gate.Listener.Addr().String()
}

// writers are two people who change the rules of a region.
type writers struct {
	t      *testing.T
	dir    string
	consul *consul.Agent
	eu     *region.Region
}

func startWriters(t *testing.T) *writers {
	t.Helper()
	w := &writers{t: t, dir: proc.LogDir(t)}
	w.consul = consul.Start(t, w.dir)
	w.applies(w.apply("begin", "ann"))
	w.eu = region.New(t, region.Config{Dir: w.dir, Name: "eu", Flags: []string{
		"--rules", "consul:", "--consul", w.consul.Addr, "--region", "eu", "--state", "off", "--rules-copy", "off",
	}})
	w.eu.Start()
	return w
}

// attempt is a command line that puts a rule in force, and who runs it.
type attempt struct {
	rule, author string
	args         []string
}

// apply is how an author applies a document of one rule.
func (w *writers) apply(rule, author string) attempt {
	w.t.Helper()
	file := proc.WriteFile(w.t, filepath.Join(w.dir, rule+".yaml"), fmt.Sprintf("rules: [{ name: %s, key: [client_ip], limit: 5/1m }]\n", rule))
	return attempt{rule, author, []string{"apply", file, "--author", author, "--reason", "for " + author}}
}

// applies makes an attempt that must succeed.
func (w *writers) applies(a attempt) (stdout string) {
	w.t.Helper()
	status, stdout, stderr := weir(w.t, w.consul.Addr, "", a.args...)
	if status != 0 || stderr != "" {
		w.t.Fatalf("weir %q: exit status %d: %s", a.args, status, stderr)
	}
	return stdout
}

// version is one of the history.
type version struct {
	Number, Revision uint64
	Who              string
}

// history has the newest version first.
func (w *writers) history() (versions []version) {
	w.t.Helper()
	status, stdout, stderr := weir(w.t, w.consul.Addr, "", "history", "--format", "json")
	if err := json.Unmarshal([]byte(stdout), &versions); err != nil || status != 0 {
		w.t.Fatalf("weir history: exit status %d: %v: %s%s", status, err, stdout, stderr)
	}
	return versions
}

// follows checks what an attempt that succeeded has printed: it is the newest version, and only the
// newest is new. The region takes it.
func (w *writers) follows(t *testing.T, a attempt, stdout string, versions int) version {
	t.Helper()
	all := w.history()
	newest := all[0]
	if len(all) != versions || newest.Number != uint64(versions) || newest.Who != a.author {
		t.Errorf("%d versions, and the newest is %+v; want version %d of %s", len(all), newest, versions, a.author)
	}
	if want := fmt.Sprintf("version %d is in force: revision %d\n", newest.Number, newest.Revision); stdout != want {
		t.Errorf("weir %q printed %q, want %q", a.args, stdout, want)
	}
	proc.Await(t, time.Minute, a.rule+" in the region", func() string {
		now := rulesOf(t, w.eu)
		if strings.Contains(now, fmt.Sprintf(`"revision":%d,`, newest.Revision)) && strings.Contains(now, `"`+a.rule+`"`) {
			return ""
		}
		return now
	})
	return newest
}

// Two people change the rules at the same time: one of them does, and the other reads who was first,
// and that nothing was changed. The region follows the one, and then the other, who tries again.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	w := startWriters(t)
	back := attempt{"begin", "bob", []string{"rollback", "1", "--author", "bob", "--reason", "back"}}
	versions := 1
	for _, c := range []struct {
		name string
		both [2]attempt
	}{
		{"both apply", [2]attempt{w.apply("a", "ann"), w.apply("b", "bob")}},
		{"one rolls back", [2]attempt{w.apply("c", "ann"), back}},
		{"both apply the same", [2]attempt{w.apply("d", "ann"), w.apply("d", "bob")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate := startGate(t, w.consul.Addr)
			var status [2]int
			var stdout, stderr [2]string
			together(2, func(i int) { status[i], stdout[i], stderr[i] = weir(t, gate, "", c.both[i].args...) })
			won := 0
			if status[0] != 0 {
				won = 1
			}
			lost := 1 - won
			if status[won] != 0 || stderr[won] != "" || status[lost] != 1 || stdout[lost] != "" {
				t.Fatalf("exit statuses %v, want 0 and 1; printed %q and %q", status, stdout, stderr)
			}
			versions++
			first := w.follows(t, c.both[won], stdout[won], versions)
			t.Logf("%s: %s", c.both[lost].author, stderr[lost])
			for _, want := range []string{
				"nothing was changed", fmt.Sprintf("%s applied version %d meanwhile", c.both[won].author, first.Number), "weir history", "apply again what is still wanted",
			} {
				if !strings.Contains(stderr[lost], want) {
					t.Errorf("%s reads %q without %q", c.both[lost].author, stderr[lost], want)
				}
			}
			versions++
			w.follows(t, c.both[lost], w.applies(c.both[lost]), versions)
		})
	}
}
