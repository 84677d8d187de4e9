package e2e

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// What nothing may show: secrets under which keys are hashed, as raw bytes, and keys of clients.
const (
	olderSecret = "the-older-secret"
	newerSecret = "the-newer-secret"
	value       = "sk_live_a-key-of-a-client"
	partner     = value + "-that-is-a-partner"

	secretsFile = ".key-secrets" // behind the name of a tier
)

// Capitals stand for what all rules have, and for the hash of the partner's key.
const hashedRules = `
rules:
  - { name: in-force, match: { path: /in-force }, key: [], limit: 0/1d, scope: pop }
  - { name: login, match: { path: /login }, key: [{ header: x-user }], ALL, limits: [6/1d, 4/2d] }
  - { name: secret, match: { path: /secret }, key: [{ header: x-api-key }], ALL, limit: 3/1d, hash: true,
      overrides: [{ key: [in-plain], limit: 1000000/1d }, { name: partner, hash: "HASH", limit: 7/1d }] }
  - { name: secret-leased, match: { path: /leased }, key: [{ header: x-api-key }], limit: 1000000/1d, hash: true }
  - { name: secret-global, match: { path: /global }, key: [{ header: x-api-key }], ALL, limit: 3/1d, hash: true, scope: global }
`

// hashed is the world of these rules: Consul, a cluster of Redis, an aggregator, a region of two replicas, two PoPs.
type hashed struct {
	*testing.T
	*stack.Stack
	dir    string
	consul *consultest.Agent
	redis  *redistest.Cluster
	tiers  []*region.Region // the aggregator and the replicas
	log    string           // the access log of both PoPs
}

// TestHashedKeys: rules that hash their keys decide at all tiers, also when their secrets change, and nothing shows a key
// or a secret.
func TestHashedKeys(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitDay()
	w := &hashed{T: t, dir: proc.LogDir(t)}
	w.redis = redistest.StartCluster(t, 3, 0,
		redistest.Args("--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000"))
	w.consul, w.log = consultest.Start(t, w.dir), filepath.Join(w.dir, "access.log")
	w.setSecrets(olderSecret)
	text := strings.NewReplacer("HASH", w.hashesOf(partner)[0],
		"ALL", "algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny").Replace(hashedRules)
	weirPrints(t, "", "rules", "apply", proc.WriteFile(w, filepath.Join(w.dir, "rules.yaml"), text), "--consul", w.consul.Addr, "--reason", "begin")
	start := func(name, program string, flags ...string) {
		r := region.New(t, region.Config{Dir: w.dir, Name: name, Program: program, Flags: append(flags, "--rules", "consul:", "--consul", w.consul.Addr,
			"--rules-copy", filepath.Join(w.dir, name+".copy"), "--key-secrets", filepath.Join(w.dir, name+secretsFile), "--log-level", "debug")})
		r.Start()
		w.tiers = append(w.tiers, r)
	}
	start("global", "weir-global", "--state", filepath.Join(w.dir, "state"), "--state-interval", "100ms")
	for _, name := range []string{"one", "two"} {
		start(name, "weir-regional", "--region", "eu", "--aggregator", w.tiers[0].Addr, "--redis", strings.Join(w.redis.Addrs(), ","), "--redis-timeout", "1s")
	}
	w.Stack = stack.Start(t, stack.Config{RegionAddr: w.tiers[1].Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetCluster("weir_region", w.tiers[1].Addr, w.tiers[2].Addr)
		b.SetAccessLog(w.log)
	}})
	for _, p := range w.PoPs {
		do(t, p.Admin, http.MethodPost, "/logging?wasm=debug")
	}
	everywhere(t, "the rules", w.PoPs, func(p *stack.PoP) bool { return p.Get("/in-force").Status == http.StatusTooManyRequests })
	w.expect("200 200 200 200 429", "/login", "x-user", "ann") // two windows, in two shards: what one rejects costs nothing on the other
	w.secretsChange()
	w.search()
}

// expect sends requests to the PoPs in turn and expects these statuses.
func (w *hashed) expect(want, path string, headers ...string) {
	w.Helper()
	var got []string
	for i := range strings.Fields(want) {
		got = append(got, fmt.Sprint(w.PoPs[i%len(w.PoPs)].Get(path, headers...).Status))
	}
	if strings.Join(got, " ") != want {
		w.Errorf("%s %q: %s, want %s", path, headers, got, want)
	}
}

// Keys are counted under a hash, at the region and at the aggregator, anew under another secret. The older secret, put back,
// has what was counted under it.
func (w *hashed) secretsChange() {
	w.keysGet("200 200 200 429")
	w.setSecrets(newerSecret, olderSecret)
	w.hashedUnder(3)
	w.keysGet("200 200 200 429")
	w.setSecrets(olderSecret, newerSecret)
	w.hashedUnder(7)
	w.keysGet("429 429")
}

// keysGet expects these statuses for a secret key, and for one that is longer than keys may be, at all tiers.
func (w *hashed) keysGet(want string) {
	w.Helper()
	for _, key := range []string{value, strings.Repeat(value+" ", 5) + "."} {
		w.expect(want, "/secret", "x-api-key", key)
		w.expect(want, "/global", "x-api-key", key)
		w.expect("200 200", "/leased", "x-api-key", key)
	}
}

// hashedUnder waits until all workers hash keys under one secret: under the older one the partner's limit is 7, else 3.
func (w *hashed) hashedUnder(limit int) {
	w.Helper()
	everywhere(w.T, fmt.Sprint("the limit of the partner ", limit), w.PoPs, func(p *stack.PoP) bool {
		return strings.HasPrefix(p.Get("/secret", "x-api-key", partner).Header.Get("RateLimit-Policy"), fmt.Sprintf(`"secret";q=%d;`, limit))
	})
}

// search finds no secret in anything that is kept or shown, and what must be there.
func (w *hashed) search() {
	hashes := w.hashesOf(value)
	logs(w.T, w.log, `"weir-denied:secret-global".*"key":"\\\\h`)
	proc.Eventually(w, time.Minute, "the aggregator has kept the keys", func() bool { // a slow disk has longer pauses between saves
		state, _ := os.ReadFile(filepath.Join(w.dir, "state"))
		return !slices.ContainsFunc(hashes, func(hash string) bool { return !strings.Contains(unpacked(string(state)), hash) })
	})
	shown := w.shown()
	for where, want := range map[string][]string{
		"Redis": append(hashes, "{login@2d:ann}"), "state": hashes, "Consul": {"in-plain"}, "one.copy": {"in-plain"},
		"one.log": {"DEBUG"}, "two/v1/rules": {"secret-leased"}, "pop-1/stats/prometheus": {"secret-leased"},
	} {
		for _, text := range want {
			if !strings.Contains(shown[where], text) {
				w.Errorf("%s has no %s: %.2000q", where, text, shown[where])
			}
		}
	}
	for where, text := range shown {
		for _, secret := range []string{olderSecret, newerSecret, value} {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(secret))} {
				if strings.Contains(text, form) {
					w.Errorf("%s has %q", where, secret)
				}
			}
		}
	}
}

// shown is all that is kept or shown, by where it is: in Redis, Consul, files, pages.
func (w *hashed) shown() map[string]string {
	all := map[string]string{"Redis": w.redis.Dump()}
	for key, value := range w.consul.KV() {
		all["Consul"] += key + " " + unpacked(value)
	}
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, secretsFile) {
			return err
		}
		text, err := os.ReadFile(path)
		all[entry.Name()] = unpacked(string(text))
		return err
	})
	fatal.If(w, err)
	for _, r := range w.tiers {
		for _, path := range []string{"/v1/rules", "/metrics", "/readyz", "/healthz", "/startedz"} {
			_, all[r.Name+path] = r.Probe(path)
		}
	}
	for _, p := range w.PoPs {
		for _, path := range []string{"/config_dump", "/stats", "/stats/prometheus", "/clusters", "/listeners", "/server_info"} {
			all[p.Name+path] = do(w.T, p.Admin, http.MethodGet, path).Body
		}
	}
	return all
}

// unpacked is a text and, if that is a gzip, what is in it.
func unpacked(text string) string {
	packed, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return text
	}
	within, _ := io.ReadAll(packed) // as much as there is
	return text + string(within)
}

// setSecrets replaces the file of secrets of each tier, and waits until all have them.
func (w *hashed) setSecrets(secrets ...string) {
	w.Helper()
	text, names := "", []string{}
	for _, s := range secrets {
		text += fmt.Sprintf("%s %x\n", nameOf(s), s)
		names = append(names, nameOf(s)+`-\w+`)
	}
	for _, name := range []string{"global", "one", "two"} {
		path := filepath.Join(w.dir, name+secretsFile)
		fatal.If(w, os.WriteFile(path+".new", []byte(text), 0o600))
		fatal.If(w, os.Rename(path+".new", path))
	}
	version := regexp.MustCompile(`^weir_key_secrets_info{version="` + strings.Join(names, ",") + `"}$`)
	for _, tier := range w.tiers {
		proc.Eventually(w, 10*time.Second, tier.Name+" has the secrets "+version.String(), func() bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(tier.Metrics())), version.MatchString)
		})
	}
}

func nameOf(secret string) string { return secret[4:9] }

// hashesOf is the hash of a key under each secret, as the tool prints it.
func (w *hashed) hashesOf(key string) (hashes []string) {
	w.Helper()
	rules := proc.WriteFile(w, filepath.Join(w.dir, "key.yaml"), "rules: [{ name: secret, key: [{ header: x-api-key }], hash: true, limit: 3/1d }]\n")
	for line := range strings.Lines(weirPrints(w.T, "", "keys", "hash", "secret", key, "--rules", rules, "--key-secrets", filepath.Join(w.dir, "one"+secretsFile))) {
		hash, _, _ := strings.Cut(line, " ")
		hashes = append(hashes, strings.TrimPrefix(hash, `\h`))
	}
	return hashes
}
