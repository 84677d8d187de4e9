package bootstrap

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/secrets"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// options are those of a first run with two regions.
func options(t *testing.T) Options {
	t.Helper()
	return Options{Dir: filepath.Join(t.TempDir(), "weir"), Regions: []string{"eu", "us"}, Home: "eu", Life: 90 * day}
}

// run is a run that must succeed, and the files after it.
func run(t *testing.T, o Options, now time.Time) (*State, map[string]string) {
	t.Helper()
	s, _, err := Run(o, now)
	fatal.If(t, err)
	return s, files(t, o.Dir)
}

// files are all files below a directory but the lock; each can be read by its owner alone.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			return errors.Join(err, errors.New(path+" has mode "+info.Mode().String()))
		}
		if d.IsDir() || strings.HasSuffix(path, ".lock") {
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(text)
		return err
	})
	fatal.If(t, err)
	return all
}

// changed are the names of files that differ, or are in one only.
func changed(a, b map[string]string) (names []string) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))) {
		if a[name] != b[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Each role has the files that machines and tasks read. A second run changes nothing, and neither does one
// that has to make any single file, or a whole directory, again.
func TestRun(t *testing.T) {
	t.Parallel()
	o := options(t)
	s, first := run(t, o, begin)
	tiers, agent := []string{"ca.pem", "cert.pem", "key.pem"}, []string{"consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"}
	service := slices.Concat(tiers, agent, []string{"consul-token", "redis-password", "key-secrets"})
	for dir, names := range map[string][]string{
		"eu/pop": slices.Concat(tiers, agent), "us/pop": slices.Concat(tiers, agent), "eu/service": service, "us/service": service, "aggregator": service,
		"eu/consul": append(agent, "acl.json"), "us/consul": agent,
	} {
		var is []string
		for path := range first {
			if filepath.Dir(path) == dir {
				is = append(is, filepath.Base(path))
			}
		}
		slices.Sort(is)
		if want := slices.Sorted(slices.Values(names)); !slices.Equal(is, want) {
			t.Errorf("%s has %v, want %v", dir, is, want)
		}
	}
	for path, names := range map[string][]string{
		"eu/pop/cert.pem": {"weir://pop/eu"}, "us/service/cert.pem": {"weir-regional", "localhost", "weir://region/us", "127.0.0.1"},
		"aggregator/cert.pem": {"weir-global", "localhost", "127.0.0.1"}, "us/consul/consul-cert.pem": {"server.us.consul", "localhost", "127.0.0.1"},
		"eu/pop/consul-cert.pem": {"client.eu.consul", "localhost", "127.0.0.1"},
	} {
		cert, _, err := s.Certificates[path].parse()
		if err != nil || !slices.Equal(certs.Names(cert), names) || !cert.NotAfter.Equal(begin.Add(90*day)) {
			t.Errorf("%s is for %v until %v, %v; want %v", path, certs.Names(cert), cert.NotAfter, err, names)
		}
	}
	if _, again := run(t, Options{Dir: o.Dir, Life: o.Life}, begin.Add(day)); len(changed(first, again)) > 0 {
		t.Errorf("a second run changed %v", changed(first, again))
	}
	for name := range first {
		if name == stateFile {
			continue
		}
		fatal.If(t, os.Remove(filepath.Join(o.Dir, name)))
		_, notes, err := Run(o, begin.Add(day))
		if again := files(t, o.Dir); err != nil || len(changed(first, again)) > 0 || !slices.Equal(notes, []string{"files: made 1 as state.json has them"}) {
			t.Errorf("without %s a run changed %v and says %q, %v", name, changed(first, again), notes, err)
		}
	}
	left := filepath.Join(o.Dir, "eu", "pop", ".key.pem.new-1")
	err := errors.Join(os.RemoveAll(filepath.Join(o.Dir, "us")), os.Remove(filepath.Join(o.Dir, "eu", "pop", "key.pem")), os.WriteFile(left, nil, 0o600), os.Chmod(o.Dir, 0o755))
	fatal.If(t, err)
	if _, again := run(t, o, begin.Add(day)); len(changed(first, again)) > 0 {
		t.Errorf("with a region gone and part of a file left a run changed %v", changed(first, again))
	}
}

// A region more adds its own files, and changes what lists all regions.
func TestRegionMore(t *testing.T) {
	t.Parallel()
	o := options(t)
	_, first := run(t, o, begin)
	o.Regions, o.Home = []string{"eu", "us", "ap"}, ""
	_, second := run(t, o, begin.Add(day))
	for _, name := range changed(first, second) {
		if first[name] != "" && name != stateFile && name != "eu/consul/acl.json" {
			t.Errorf("%s was changed", name)
		}
	}
	if second["ap/service/consul-token"] == "" {
		t.Error("ap has no token")
	}
	o.Home = "us"
	_, third := run(t, o, begin.Add(day))
	if third["eu/consul/acl.json"] != "" || !strings.Contains(third["us/consul/consul.json"], "initial_management") || strings.Contains(third["eu/consul/consul.json"], "initial_management") {
		t.Error("the new home has not all that the former one had")
	}
}

// What has used up two thirds of its life is renewed. What ends with its authority does not outlive it.
func TestRenewal(t *testing.T) {
	t.Parallel()
	o := options(t)
	_, first := run(t, o, begin)
	if _, early := run(t, o, begin.Add(59*day)); len(changed(first, early)) > 0 {
		t.Errorf("renewed on day 59: %v", changed(first, early))
	}
	_, late := run(t, o, begin.Add(60*day))
	for name := range first {
		isLeaf := strings.HasSuffix(name, "cert.pem") || strings.HasSuffix(name, "key.pem")
		if same := first[name] == late[name]; same == isLeaf && name != stateFile {
			t.Errorf("on day 60 %s is the same: %v", name, same)
		}
	}
	end := begin.Add(authorityLife)
	for left, want := range map[time.Duration]bool{authorityLife / 3: false, 1000 * day: true} {
		_, notes, err := Run(o, end.Add(-left))
		if says := slices.Contains(notes, "Weir's authority ends on 2035-12-30, and its certificates with it: --rotate authority"); err != nil || says != want {
			t.Errorf("%v before the end of its authority: %v, %v", left, notes, err)
		}
	}
	s, _ := run(t, o, end.Add(-day))
	if cert, _, err := s.Certificates["eu/pop/cert.pem"].parse(); err != nil || !cert.NotAfter.Equal(end) {
		t.Errorf("ends on %v, %v; its authority on %v", cert.NotAfter, err, end)
	}
	before := files(t, o.Dir)
	if _, _, err := Run(o, end.Add(day)); err == nil || !strings.Contains(err.Error(), "Weir's authority expired on 2035-12-30 00:00 UTC") || !strings.Contains(err.Error(), "--rotate authority") {
		t.Errorf("with an expired authority: %v", err)
	}
	if after := files(t, o.Dir); len(changed(before, after)) > 0 {
		t.Errorf("with an expired authority it changed %v", changed(before, after))
	}
	if _, _, err := Run(o, begin.Add(-day)); err == nil || !strings.Contains(err.Error(), "Weir's authority is valid from 2025-12-31 23:00 UTC on (is this machine's clock right?)") {
		t.Errorf("with an authority of the future: %v", err)
	}
	o.Rotate = "authority"
	s, _ = run(t, o, end.Add(day))
	if s.Weir.Next != nil || s.Weir.Former != nil || s.Consul.Former != nil {
		t.Error("an expired authority was kept")
	}
	o.Rotate = "certificates"
	run(t, o, end.Add(365*day)) // while the clock was wrong
	o.Rotate = ""
	s, _ = run(t, o, end.Add(2*day))
	if cert, _, err := s.Certificates["eu/pop/cert.pem"].parse(); err != nil || cert.NotBefore.After(end.Add(2*day)) {
		t.Errorf("a certificate of the future: valid from %v on, %v", cert.NotBefore, err)
	}
}

// What is rotated is replaced, and nothing else.
func TestRotate(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"certificates", "authority", "gossip", "tokens", "redis", "key-secrets"} {
		o := options(t)
		o.Rotate = what // a first run has nothing to rotate
		if s, _ := run(t, o, begin); s.Weir.Next != nil || len(s.FormerManagement) > 0 || s.Redis["eu"].Former != "" || len(s.KeySecrets) != 1 || s.NextGossip != "" {
			t.Errorf("--rotate %s has kept what was not there: %+v", what, s)
		}
	}
	o := options(t)
	s, first := run(t, o, begin)
	for what, is := range map[string]func(string) bool{
		"certificates": func(n string) bool { return strings.HasSuffix(n, "cert.pem") || strings.HasSuffix(n, "key.pem") },
		"gossip":       func(n string) bool { return n == "people/gossip-key" },
		"tokens": func(n string) bool {
			return strings.HasSuffix(n, "/consul.json") || strings.HasSuffix(n, "-token") || strings.HasSuffix(n, "acl.json")
		},
		"redis":       func(n string) bool { return strings.HasPrefix(n, "redis/") || strings.HasSuffix(n, "/redis-password") },
		"key-secrets": func(n string) bool { return strings.HasSuffix(n, "/key-secrets") },
	} {
		before := files(t, o.Dir)
		o.Rotate = what
		_, after := run(t, o, begin.Add(day))
		for name := range before {
			if is := is(name) || name == stateFile; is == (before[name] == after[name]) {
				t.Errorf("--rotate %s: %s is to change: %v", what, name, is)
			}
		}
	}
	before := files(t, o.Dir)
	o.Rotate = "gossip"
	if second, after := run(t, o, begin.Add(day)); second.Gossip+"\n" != before["people/gossip-key"] || len(changed(before, after)) != 8 {
		t.Errorf("the second --rotate gossip changed %v", changed(before, after))
	}
	o.Rotate = ""
	if again, _ := run(t, o, begin.Add(day)); again.Redis["eu"].Former != s.Redis["eu"].Current || again.FormerManagement[0] != s.Tokens[management].Secret {
		t.Error("the former password or token is lost")
	}
	if now := files(t, o.Dir)["redis/eu/users.acl"]; strings.Count(now, "#") != 2 || !strings.Contains(now, strings.Fields(first["redis/eu/users.acl"])[3]) {
		t.Errorf("users.acl has not the former password, too: %s", now)
	}
}

// Replicas and aggregators have one file of secrets. A new secret comes behind the one in force, replaces the one before,
// and then comes first. A directory without them gets one.
func TestKeySecrets(t *testing.T) {
	t.Parallel()
	o := options(t)
	_, first := run(t, o, begin)
	before := map[string]rule.Secret{}
	for i, ids := range []string{"1", "1 2", "2 1", "2 3", "3 2"} {
		_, now := run(t, o, begin)
		all, err := secrets.Read(filepath.Join(o.Dir, "us", "service", "key-secrets"))
		var is []string
		for _, s := range all {
			is = append(is, s.ID)
			if was, known := before[s.ID]; known && was != s.Secret {
				t.Errorf("after %d runs the secret %s is another one", i, s.ID)
			}
			before[s.ID] = s.Secret
		}
		if err != nil || strings.Join(is, " ") != ids {
			t.Fatalf("after %d runs the secrets are %s, %v; want %s", i, is, err, ids)
		}
		for _, dir := range []string{"eu/service", "aggregator"} {
			if now[dir+"/key-secrets"] != now["us/service/key-secrets"] {
				t.Errorf("%s has other secrets than us", dir)
			}
		}
		o.Rotate = "key-secrets"
		run(t, o, begin)
		o.Rotate = ""
	}
	old := regexp.MustCompile(`(?s),\s+"key_secrets": \[.*?\]`).ReplaceAllString(first[stateFile], "")
	if err := os.WriteFile(filepath.Join(o.Dir, stateFile), []byte(old), 0o600); err != nil || old == first[stateFile] {
		t.Fatalf("%v: %s", err, old)
	}
	s, notes, err := Run(o, begin)
	if err != nil || len(s.KeySecrets) != 1 || !slices.Equal(notes, []string{"secret of keys: made"}) {
		t.Errorf("of a state without secrets: %q, %q, %v", s.KeySecrets, notes, err)
	}
}

// A mistake is rejected before anything is written.
func TestMistakes(t *testing.T) {
	t.Parallel()
	good, lost := options(t), options(t)
	run(t, good, begin)
	root := filepath.Dir(good.Dir)
	lost.Dir = filepath.Join(root, "lost")
	run(t, lost, begin)
	other, file := filepath.Join(root, "other"), filepath.Join(root, "other", "photo.jpg")
	fatal.If(t, errors.Join(os.Chmod(root, 0o700), os.Remove(filepath.Join(lost.Dir, stateFile)),
		os.Mkdir(other, 0o700), os.WriteFile(file, nil, 0o600)))
	before, made := files(t, root), filepath.Join(root, "new")
	for want, change := range map[string]func(*Options){
		"name a directory for `weir admin bootstrap` alone":      func(o *Options) { o.Dir = file },
		"photo.jpg and no state.json":                            func(o *Options) { o.Dir = other },
		"aggregator and no state.json":                           func(o *Options) { o.Dir = lost.Dir },
		"name a directory that you can make or write to":         func(o *Options) { o.Dir = "/proc/weir" },
		"--regions is missing":                                   func(o *Options) { o.Regions = nil },
		"--home is missing; write which of eu, us":               func(o *Options) { o.Home = "" },
		"--home ap is not among the regions eu, us":              func(o *Options) { o.Home = "ap" },
		`--regions has "EU"; a name has 1 to 20 of a-z`:          func(o *Options) { o.Regions, o.Home = []string{"EU"}, "" },
		`--regions has ""`:                                       func(o *Options) { o.Regions, o.Home = []string{"eu", ""}, "eu" },
		"--regions has aggregator, which is the name of another": func(o *Options) { o.Regions = []string{"eu", "aggregator"} },
		"--regions has eu twice":                                 func(o *Options) { o.Regions = []string{"eu", "eu"} },
		"agents of eu could change nodes of eu-pop":              func(o *Options) { o.Regions = []string{"eu", "eu-pop"} },
		"--regions lacks us":                                     func(o *Options) { o.Dir, o.Regions = good.Dir, []string{"eu", "ap"} },
		"--client-cert and --client-key name two files":          func(o *Options) { o.ClientCert = file },
		"photo.jpg: tls: failed to find any PEM data in certif":  func(o *Options) { o.ClientCert, o.ClientKey = file, file },
	} {
		o := options(t)
		o.Dir = made
		change(&o)
		if _, _, err := Run(o, begin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if after := files(t, root); len(changed(before, after)) > 0 {
			t.Errorf("%s: it changed %v", want, changed(before, after))
		}
		if _, err := os.Stat(made); err == nil {
			t.Errorf("%s: it made the directory", want)
		}
	}
}

// Something in the way of a file leaves a state that the next run completes: it is written first.
func TestInTheWay(t *testing.T) {
	t.Parallel()
	o := options(t)
	_, first := run(t, o, begin)
	eu := filepath.Join(o.Dir, "eu")
	fatal.If(t, errors.Join(os.RemoveAll(eu), os.WriteFile(eu, nil, 0o600)))
	o.Rotate = "redis"
	if _, _, err := Run(o, begin); err == nil || !strings.Contains(err.Error(), "fix this and run again, without --rotate") {
		t.Errorf("with a file in the way: %v", err)
	}
	fatal.If(t, os.Remove(eu))
	o.Rotate = ""
	s, after := run(t, o, begin)
	if s.Redis["eu"].Former == "" || after["eu/service/redis-password"] != s.Redis["eu"].Current+"\n" || after["eu/pop/key.pem"] != first["eu/pop/key.pem"] {
		t.Error("the next run made other files than those of the state")
	}
}

// A link to the state stays one, and modes are put right.
func TestLink(t *testing.T) {
	t.Parallel()
	o := options(t)
	run(t, o, begin)
	link, kept := filepath.Join(o.Dir, stateFile), filepath.Join(t.TempDir(), "kept.json")
	dir, key := filepath.Join(o.Dir, "eu", "pop"), filepath.Join(o.Dir, "eu", "pop", "key.pem")
	fatal.If(t, errors.Join(os.Rename(link, kept), os.Symlink(kept, link),
		os.Chmod(kept, 0o644), os.Chmod(dir, 0o755), os.Chmod(key, 0o644)))
	mode := func(path string) os.FileMode { return fatal.Get(os.Lstat(path))(t).Mode() }
	for _, rotate := range []string{"", "redis"} {
		o.Rotate = rotate
		_, _, err := Run(o, begin)
		if err != nil || mode(link)&os.ModeSymlink == 0 || (mode(kept)|mode(key)|mode(dir)).Perm()&0o077 != 0 {
			t.Errorf("%v: the link is %v, it leads to %v; %v in %v", err, mode(link), mode(kept), mode(key), mode(dir))
		}
	}
}

// Nobody changes the directory while it is published. What cannot be published is published without changes.
func TestPublishAlone(t *testing.T) {
	t.Parallel()
	o := options(t)
	failed := errors.New("no network")
	o.Publish = func(*State, []string) error {
		if _, _, err := Run(Options{Dir: o.Dir, Life: o.Life}, begin); err == nil || !strings.Contains(err.Error(), "is in use by") {
			t.Errorf("another run meanwhile: %v", err)
		}
		return failed
	}
	if _, _, err := Run(o, begin); !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	o.Publish = func(_ *State, notes []string) error {
		if len(notes) > 0 {
			t.Errorf("the next run changed %v", notes)
		}
		return nil
	}
	run(t, o, begin)
}

// PoPs get the certificate that they show to clients, and keep it.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	o := options(t)
	run(t, o, begin)
	o.ClientCert, o.ClientKey = filepath.Join(o.Dir, "us/pop/cert.pem"), filepath.Join(o.Dir, "us/pop/key.pem")
	run(t, o, begin)
	o.ClientCert, o.ClientKey = "", ""
	if _, after := run(t, o, begin); after["eu/pop/client-cert.pem"] != after["us/pop/cert.pem"] || after["eu/pop/client-key.pem"] != after["us/pop/key.pem"] {
		t.Error("PoPs have not the certificate for clients")
	}
}

// The user of Redis has the rights that the store needs.
func TestRedisRights(t *testing.T) {
	t.Parallel()
	text := fatal.Get(os.ReadFile("../redis/redisstore/weir.acl"))(t)
	if !strings.Contains(string(text), "\nuser "+redisUser+" on >PASSWORD "+redisRights+"\n") {
		t.Errorf("weir.acl differs from %s:\n%s", redisRights, text)
	}
}
