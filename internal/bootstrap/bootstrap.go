// Package bootstrap makes the secrets of a deployment: authorities and certificates, Consul's gossip key and tokens, users
// of Redis, secrets of keys. It chooses them on one machine, without a service, and keeps them in one file, state.json,
// which it replaces as a whole. All other files are made from this one: a run completes an interrupted run, and a run
// without work changes nothing.
//
//	state.go       the chosen secrets
//	names.go       the names of certificates and tokens
//	authority.go   X.509
//	bootstrap.go   the changes of a run
//	files.go       the files of each role
//	publish.go     Kubernetes and AWS
//	acl            policies and tokens in Consul
//	aws            Secrets Manager and users of ElastiCache
package bootstrap

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weirlimit/weir/internal/statefile"
)

// Options are those of a run.
type Options struct {
	Dir     string
	Home    string   // empty: as it was
	Regions []string // empty: as they were
	// Life is how long new certificates last.
	Life time.Duration
	// Rotate replaces certificates, authority, gossip, tokens, redis or key-secrets; empty: nothing that is good.
	Rotate string
	// ClientCert and ClientKey are files with what PoPs show to clients; empty: as it was.
	ClientCert, ClientKey string
	// Publish is the last that a run does, while no other one can change the directory; nil: nothing.
	Publish func(s *State, notes []string) error
}

// Run makes and keeps what is in a directory. Notes are what it has changed, a sentence each.
func Run(o Options, now time.Time) (s *State, notes []string, err error) {
	isNew, err := examine(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	client, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	if s = (&State{Layout: layout}); isNew {
		if err := s.place(o.Home, o.Regions); err != nil { // before anything is written
			return nil, nil, err
		}
	}
	if err := errors.Join(os.MkdirAll(o.Dir, 0o700), os.Chmod(o.Dir, 0o700)); err != nil {
		return nil, nil, fmt.Errorf("%w; name a directory that you can make or write to", err)
	}
	lock, err := statefile.Lock(filepath.Join(o.Dir, stateFile))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = lock.Close() }()
	there, before, err := load(o.Dir)
	switch {
	case err == nil:
		s = there
	case !isNew || !errors.Is(err, os.ErrNotExist):
		return nil, nil, err
	}
	if client != nil {
		s.Client = client
	}
	if notes, err = s.change(o, now); err != nil {
		return nil, nil, err
	}
	if err := s.save(o.Dir, before); err != nil {
		return nil, nil, fmt.Errorf("%w; nothing was changed", err)
	}
	made, err := s.write(o.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %s is complete: fix this and run again, without --rotate", err, stateFile)
	}
	if made > 0 && len(notes) == 0 {
		notes = append(notes, fmt.Sprintf("files: made %d as %s has them", made, stateFile))
	}
	if o.Publish != nil {
		err = o.Publish(s, notes)
	}
	return s, notes, err
}

// client reads what PoPs show to clients.
func (o *Options) client() (*Pair, error) {
	if o.ClientCert == "" && o.ClientKey == "" {
		return nil, nil
	}
	cert, err1 := os.ReadFile(o.ClientCert)
	key, err2 := os.ReadFile(o.ClientKey)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%w; --client-cert and --client-key name two files", err)
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", o.ClientCert, o.ClientKey, err)
	}
	return &Pair{Cert: string(cert), Key: string(key)}, nil
}

// change brings the state to what it should be.
func (s *State) change(o Options, now time.Time) (notes []string, err error) {
	before := s.Home
	if err := s.place(o.Home, o.Regions); err != nil {
		return nil, err
	}
	if before != "" && before != s.Home {
		notes = append(notes, fmt.Sprintf("home: %s, before %s", s.Home, before))
	}
	for _, a := range []struct {
		what string
		*Authorities
	}{{"Weir", &s.Weir}, {"Consul", &s.Consul}} {
		note := ""
		switch {
		case a.Current == nil:
			a.Current, err = newAuthority(a.what, now)
			note = a.what + "'s authority: made"
		case o.Rotate == "authority":
			note, err = a.rotate(a.what, now)
		default:
			note, err = a.ends(a.what, now)
		}
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if o.Rotate == "tokens" && s.Tokens != nil {
		notes = append(notes, s.retire())
	}
	made, err := s.complete(o, now)
	return append(notes, made...), err
}

// retire makes room for new tokens. Consul accepts the former ones until they are pruned.
func (s *State) retire() string {
	s.FormerManagement = append(s.FormerManagement, s.Tokens[management].Secret)
	s.Tokens = nil
	return "tokens: new; Consul accepts them after `weir admin bootstrap acl`, and the former ones until `weir admin bootstrap acl --prune`"
}

// complete makes what is missing, and certificates that are no longer good.
func (s *State) complete(o Options, now time.Time) (notes []string, err error) {
	count := func(what string, n int) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%s: made %d", what, n))
		}
	}
	if s.Certificates == nil {
		s.Certificates = map[string]*Pair{}
	}
	n := 0
	for _, l := range s.leaves() {
		by := &s.Weir
		if l.consuls() {
			by = &s.Consul
		}
		if o.Rotate != "certificates" && by.good(s.Certificates[l.path], l.names, now) {
			continue
		}
		if s.Certificates[l.path], err = by.issue(l.names, now, o.Life); err != nil {
			return nil, err
		}
		n++
	}
	count("certificates", n)
	count("tokens", s.completeTokens())
	count("users of Redis", s.completeRedis(o.Rotate == "redis"))
	if o.Rotate == "redis" && s.Redis[aggregator].Former != "" {
		notes = append(notes, "passwords of Redis: those before are good until the next --rotate redis; programs need the new ones before that")
	}
	if s.Gossip == "" || o.Rotate == "gossip" {
		notes = append(notes, s.nextGossip())
	}
	if len(s.KeySecrets) == 0 || o.Rotate == "key-secrets" {
		notes = append(notes, s.nextKeySecret())
	}
	return notes, nil
}

func (s *State) completeTokens() (made int) {
	if s.Tokens == nil {
		s.Tokens = map[string]Token{}
	}
	for _, t := range append(s.tokens(), namedRules{name: management}) {
		if _, found := s.Tokens[t.name]; !found {
			s.Tokens[t.name] = Token{Accessor: uuid.NewString(), Secret: uuid.NewString()}
			made++
		}
	}
	return made
}

func (s *State) completeRedis(rotate bool) (made int) {
	if s.Redis == nil {
		s.Redis = map[string]Passwords{}
	}
	for _, where := range append([]string{aggregator}, s.Regions...) {
		if p := s.Redis[where]; p.Current == "" || rotate {
			s.Redis[where] = Passwords{Current: hex.EncodeToString(random(32)), Former: p.Current}
			made++
		}
	}
	return made
}

// nextGossip goes one step further. An agent that starts with another key than the others does not join, so
// files have the old one until the agents that run have both.
func (s *State) nextGossip() string {
	if s.Gossip != "" && s.NextGossip != "" {
		s.Gossip, s.NextGossip = s.NextGossip, ""
		return "gossip key: consul.json has the new one (step 2 of 2); publish it, and then `consul keyring -use`: docs/bootstrap.md"
	}
	key := base64.StdEncoding.EncodeToString(random(32))
	if s.Gossip == "" {
		s.Gossip = key
		return "gossip key: made"
	}
	s.NextGossip = key
	return "gossip key: people/gossip-key has a new one, and no other file (step 1 of 2); `consul keyring -install` it before --rotate gossip again: docs/bootstrap.md"
}

// nextKeySecret goes one step further. Limits of single keys hold only under the secrets that a replica has, so files
// have a new one behind the one in force until all replicas have it.
func (s *State) nextKeySecret() string {
	number := func(i int) (n int) {
		_, _ = fmt.Sscan(s.KeySecrets[i], &n) // is the name
		return n
	}
	made := func(n int) string { return fmt.Sprintf("%d %x", n, random(16)) }
	switch {
	case len(s.KeySecrets) == 0:
		s.KeySecrets = []string{made(1)}
		return "secret of keys: made"
	case len(s.KeySecrets) == 2 && number(1) > number(0):
		slices.Reverse(s.KeySecrets)
		return "secret of keys: the new one is in force (step 2 of 2); publish it"
	}
	s.KeySecrets = []string{s.KeySecrets[0], made(number(0) + 1)}
	return "secret of keys: a new one is behind the one in force (step 1 of 2); all replicas and aggregators need this file before --rotate key-secrets again"
}

// random returns so many bytes that nobody can guess.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
