package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

const (
	stateFile = "state.json"
	layout    = 1 // of the state: a file with another number is not read
)

// State is all that was chosen. Every other file is made of it, so each of them can be made again.
type State struct {
	Layout  int      `json:"layout"`
	Home    string   `json:"home"`    // region with the aggregators, the rules and Consul's primary servers
	Regions []string `json:"regions"` // in the order in which they were added

	Weir   Authorities `json:"weir"`
	Consul Authorities `json:"consul"`
	// Certificates are by the path of their file, such as eu/pop/cert.pem.
	Certificates map[string]*Pair `json:"certificates"`
	// Client is what PoPs show to clients; nil: none was given.
	Client *Pair `json:"client,omitempty"`

	Gossip     string           `json:"gossip"`                // key of Consul's gossip, base64
	NextGossip string           `json:"next_gossip,omitempty"` // is in Consul's keyring before it is in files
	Tokens     map[string]Token `json:"tokens"`                // of Consul, by name
	// FormerManagement are secrets of Consul's management token before it, the newest last.
	FormerManagement []string             `json:"former_management,omitempty"`
	Redis            map[string]Passwords `json:"redis"` // by region, and aggregator
	// KeySecrets are the lines of the file of --key-secrets. After a rotation there are two: the first is in force.
	KeySecrets []string `json:"key_secrets"`
}

// Token is one of Consul: its public and its secret id, both UUIDs.
type Token struct {
	Accessor string `json:"accessor"`
	Secret   string `json:"secret"`
}

// Passwords are those that a user of Redis has at a time.
type Passwords struct {
	Current string `json:"current"`
	Former  string `json:"former,omitempty"` // is valid until the next rotation
}

// all begins with the one that programs get.
func (p Passwords) all() []string {
	if p.Former == "" {
		return []string{p.Current}
	}
	return []string{p.Current, p.Former}
}

// examine looks whether a directory can be used, and changes nothing. new: no state is there yet.
func examine(dir string) (isNew bool, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%w; name a directory for `weir admin bootstrap` alone", err)
	}
	names := []string{}
	for _, e := range entries {
		if e.Name() == stateFile {
			return false, nil
		}
		// A run that was killed before it had saved the state leaves its lock and part of the state.
		if !strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), stateFile) {
			names = append(names, e.Name())
		}
	}
	if len(names) > 0 {
		return false, fmt.Errorf("%s has %s and no %s, so `weir admin bootstrap` did not make it, or its state is lost: name a new or empty directory, or put %[3]s back from your copy", dir, names[0], stateFile)
	}
	return true, nil
}

// load reads the state, and returns the text of its file.
func load(dir string) (*State, []byte, error) {
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	s := new(State)
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(s); err != nil {
		return nil, nil, fmt.Errorf("%s: %w; put it back from your copy", path, err)
	}
	if s.Layout != layout {
		return nil, nil, fmt.Errorf("%s has layout %d, and this release reads %d: use the release that wrote it", path, s.Layout, layout)
	}
	return s, text, nil
}

// save replaces the file of the state unless it is the same.
func (s *State) save(dir string, before []byte) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, stateFile), append(text, '\n'), before)
}

// replace writes a file as a whole unless it is the same, and removes what killed runs have left beside it. A
// link stays, and what it leads to is replaced.
func replace(path string, text, before []byte) error {
	if bytes.Equal(text, before) {
		return os.Chmod(path, 0o600)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new-*"))
	for _, l := range left {
		err = errors.Join(err, os.Remove(l))
	}
	return errors.Join(err, rulefile.Replace(path, text, 0o600))
}

// place sets home and regions. Without both, they are as they were.
func (s *State) place(home string, regions []string) error {
	if len(regions) == 0 {
		regions = s.Regions
	}
	if len(regions) == 0 {
		return errors.New("--regions is missing; write the names of all regions, such as --regions eu,us --home eu")
	}
	for _, r := range s.Regions {
		if !slices.Contains(regions, r) {
			return fmt.Errorf("--regions lacks %s; write all existing and new regions, or leave --regions out (a removed region may stay: docs/bootstrap.md)", r)
		}
	}
	if home == "" {
		home = s.Home
	}
	if home == "" && len(regions) == 1 {
		home = regions[0]
	}
	if home == "" {
		return fmt.Errorf("--home is missing; write which of %s has the aggregators, the rules and Consul's primary servers", strings.Join(regions, ", "))
	}
	if !slices.Contains(regions, home) {
		return fmt.Errorf("--home %s is not among the regions %s", home, strings.Join(regions, ", "))
	}
	if err := checkNames(regions); err != nil {
		return err
	}
	for _, r := range regions {
		if !slices.Contains(s.Regions, r) {
			s.Regions = append(s.Regions, r)
		}
	}
	s.Home = home
	return nil
}
