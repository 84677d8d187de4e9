package bootstrap

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirlimit/weir/consul/policies"
	"github.com/weirlimit/weir/internal/bootstrap/acl"
)

const (
	redisDirectory = "redis"
	// redisUser and redisRights are those of internal/redis/redisstore/weir.acl.
	redisUser   = "weir"
	redisRights = "resetchannels ~weir:* -@all +evalsha +eval +script|load +time +get +set +getrange +setrange +pexpire +zadd +zrem +zremrangebyscore +zcard +hset +hscan +hdel +cluster|slots +cluster|info +asking +info"
)

// Files are all files but the state, by their path.
func (s *State) Files() (map[string]string, error) {
	files := map[string]string{
		"authorities/weir.pem":   s.Weir.bundle(),
		"authorities/consul.pem": s.Consul.bundle(),
		// For people: whoever applies rules, and whoever looks after Consul. The key is the newest.
		"people/rules-token":      s.Tokens["rules"].Secret + "\n",
		"people/management-token": s.Tokens[management].Secret + "\n",
		"people/gossip-key":       cmp.Or(s.NextGossip, s.Gossip) + "\n",
	}
	for _, l := range s.leaves() {
		own, bundle := strings.TrimSuffix(l.path, "cert.pem"), s.Weir.bundle()
		if l.consuls() {
			bundle = s.Consul.bundle()
		}
		files[own+"cert.pem"], files[own+"key.pem"], files[own+"ca.pem"] = s.Certificates[l.path].Cert, s.Certificates[l.path].Key, bundle
	}
	s.addSecrets(files, aggregator, "aggregator", aggregator)
	err := s.addConsul(files, aggregator, map[string]string{"agent": "aggregator-agent"})
	for _, r := range s.Regions {
		s.addSecrets(files, r+"/service", r+"-replica", r)
		servers := map[string]string{"agent": agentToken(r, policies.Server), "replication": "replication"}
		if r == s.Home {
			servers = map[string]string{"agent": agentToken(r, policies.Server), "initial_management": management}
		}
		if s.Client != nil {
			files[r+"/pop/client-cert.pem"], files[r+"/pop/client-key.pem"] = s.Client.Cert, s.Client.Key
		}
		err = errors.Join(err,
			s.addConsul(files, r+"/pop", map[string]string{"agent": agentToken(r, policies.PoP), "dns": r + "-dns"}),
			s.addConsul(files, r+"/service", map[string]string{"agent": agentToken(r, policies.Service)}),
			s.addConsul(files, r+"/consul", servers))
	}
	return files, errors.Join(err, addJSON(files, s.Home+"/consul/acl.json", s.acl()))
}

// addSecrets adds what a program needs besides certificates, and the user for its Redis.
func (s *State) addSecrets(files map[string]string, dir, token, where string) {
	p := s.Redis[where]
	files[dir+"/consul-token"], files[dir+"/redis-password"] = s.Tokens[token].Secret+"\n", p.Current+"\n"
	files[dir+"/key-secrets"] = strings.Join(s.KeySecrets, "\n") + "\n"
	line := "user " + redisUser + " on"
	for _, password := range p.all() {
		line += fmt.Sprintf(" #%x", sha256.Sum256([]byte(password)))
	}
	files[redisDirectory+"/"+where+"/users.acl"] = line + " " + redisRights + "\n"
}

// addConsul adds the part of an agent's configuration that is secret.
func (s *State) addConsul(files map[string]string, dir string, tokens map[string]string) error {
	secrets := map[string]string{}
	for use, name := range tokens {
		secrets[use] = s.Tokens[name].Secret
	}
	return addJSON(files, dir+"/consul.json", map[string]any{"encrypt": s.Gossip, "acl": map[string]any{"tokens": secrets}})
}

// acl is what Consul's servers make.
func (s *State) acl() acl.File {
	named := func(name, rules string) acl.Token {
		t := s.Tokens[name]
		return acl.Token{Name: "weir-" + name, Accessor: t.Accessor, Secret: t.Secret, Rules: rules}
	}
	f := acl.File{Management: named(management, ""), Former: s.FormerManagement}
	for _, t := range s.tokens() {
		f.Tokens = append(f.Tokens, named(t.name, withoutComments(t.rules)))
	}
	return f
}

// withoutComments is a policy as short as it can be: a secret of AWS has room for 64 KiB.
func withoutComments(rules string) (short string) {
	for line := range strings.Lines(rules) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			short += line
		}
	}
	return short
}

func addJSON(files map[string]string, path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	files[path] = string(text) + "\n"
	return err
}

// write makes the files that differ, and removes what another home or a killed run has left. It returns how many
// it has made.
func (s *State) write(dir string) (made int, err error) {
	files, err := s.Files()
	if err != nil {
		return 0, err
	}
	for _, r := range s.Regions {
		if r == s.Home {
			continue
		}
		if failed := os.Remove(filepath.Join(dir, r, "consul", "acl.json")); !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	for _, name := range sorted(files) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Chmod(filepath.Dir(path), 0o700)); err != nil {
			return made, err
		}
		now, _ := os.ReadFile(path)
		if string(now) != files[name] {
			made++
		}
		err = errors.Join(err, replace(path, []byte(files[name]), now))
	}
	return made, err
}

// sorted are the keys of a map.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
