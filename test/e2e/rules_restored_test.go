package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// key reads, writes or deletes a key of Consul by hand.
func (r *rulesInConsul) key(method, key, value string) []byte {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.consul.Addr+"/v1/kv/weir/rules/"+key, strings.NewReader(value))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, body, err := page.Do(http.DefaultClient, req)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s %s: %v %s", method, key, err, body)
	}
	return body
}

// awaitRevision waits until all tiers have it.
func (r *rulesInConsul) awaitRevision(revision uint64) {
	r.t.Helper()
	for _, one := range r.tiers {
		proc.Await(r.t, time.Minute, one.Name, func() string {
			if got := one.Metrics()["weir_rules_revision"]; got != float64(revision) {
				return fmt.Sprintf("it has revision %.0f, want %d", got, revision)
			}
			return ""
		})
	}
}

// Rules were applied by a clock that was ahead, and Consul has been restored from a backup without
// them. What is applied then is in force. A manifest that repeats a chunk is refused, and read by nobody.
func TestRulesAfterARestore(t *testing.T) {
	t.Parallel()
	r := &rulesInConsul{t: t, dir: proc.LogDir(t)}
	r.consul = consultest.Start(t, r.dir)
	for _, one := range []struct{ name, program string }{{"global", "weir-global"}, {"eu", "weir-regional"}} {
		flags := []string{"--rules", "consul:", "--consul", r.consul.Addr, "--state", "off", "--rules-copy", filepath.Join(r.dir, one.name+".copy")}
		if one.program == "weir-regional" {
			flags = append(flags, "--region", one.name)
		}
		r.tiers = append(r.tiers, region.New(t, region.Config{Dir: r.dir, Name: one.name, Program: one.program, Flags: flags}))
		r.tiers[len(r.tiers)-1].Begin()
	}
	backup := r.weir("apply", r.rules("first"), "--reason", "begin")
	for _, one := range r.tiers {
		one.AwaitReady()
	}
	v, err := versions.ParseVersion("manifest", r.key("GET", "manifest?raw", ""))
	if err != nil {
		t.Fatalf("%v after %s", err, backup)
	}
	put := func(v versions.Version) {
		t.Helper()
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		r.key("PUT", "manifest", string(text))
	}

	ahead := v
	ahead.Revision = v.Revision + uint64((1000 * time.Hour).Microseconds())
	put(ahead)
	r.awaitRevision(ahead.Revision)
	r.key("DELETE", "?recurse=true", "")
	put(v) // the backup
	r.key("PUT", fmt.Sprintf("versions/%016d", v.Revision), string(v.Encode()))
	out := r.weir("apply", r.rules("second"), "--reason", "after the restore")
	var revision uint64
	if _, err := fmt.Sscanf(out, "revision %d is in force", &revision); err != nil || revision <= ahead.Revision {
		t.Fatalf("%s\nwant a revision larger than %d, in force", out, ahead.Revision)
	}
	r.awaitRevision(revision)

	before := r.tiers[1].Memory()
	repeated := v
	repeated.Chunks, repeated.Size, repeated.Revision = slices.Repeat(v.Chunks, 4000), 4000*v.Size, revision+1
	put(repeated)
	proc.Eventually(t, time.Minute, "the manifest is refused", func() bool {
		return r.tiers[1].Metrics()["weir_rules_config_ok"] == 0 && strings.Contains(r.tiers[1].Log(), "in 4000 chunks")
	})
	if grown := r.tiers[1].Memory() - before; grown > 100<<20 {
		t.Errorf("it takes %d bytes more", grown)
	}
	r.awaitRevision(revision)
}
