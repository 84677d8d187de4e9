package regions

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Names are the regions.
var Names = []string{"eu", "us", "ap"}

// Script is one script, as the package comment describes it.
type Script struct {
	Name     string `yaml:"-"` // of its file, without the ending
	Document `yaml:",inline"`
	Trip     time.Duration
	Align    time.Duration // of its beginning to the clock: whole seconds
	Loads    []Offer
	Events   []Event // by time

	Always, Expect []Expectation

	Rules []Rule `yaml:"-"` // those of Fields
}

// Rule is a rule that a script brings.
type Rule struct {
	Name    string
	Spec    limit.Spec
	Timeout time.Duration
	Global  bool // all regions share it
}

// Offer is a load on one region.
type Offer struct {
	From, To  time.Duration
	Region    string
	PerSecond float64 `yaml:"rate"`
	Rule      string
}

// Event is something that is done to the world.
type Event struct {
	At  time.Duration
	Do  string
	act func(*World)
}

// Last is when the last load ends.
func (s *Script) Last() (last time.Duration) {
	for _, l := range s.Loads {
		last = max(last, l.To)
	}
	return last
}

// Parse reads a script.
func Parse(name, text string) (*Script, error) {
	s := &Script{Name: name, Align: time.Second, Document: Document{Shares: map[string]int{}}}
	for _, region := range Names {
		s.Shares[region] = 1
	}
	d := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	d.KnownFields(true)
	err := d.Decode(s)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return s, nil
}

// ReadAll reads the scripts of a directory, by name.
func ReadAll(dir string) ([]*Script, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("no scripts in " + dir)
	}
	var all []*Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := Parse(strings.TrimSuffix(filepath.Base(file), ".yaml"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, err
}

// check finds what a script names.
func (s *Script) check() error {
	errs := []error{s.readRules()}
	for _, l := range s.Loads {
		if s.rule(l.Rule) == nil {
			errs = append(errs, fmt.Errorf("%q is no rule of this script", l.Rule))
		}
	}
	for i := range s.Events {
		act, err := readAction(s.Events[i].Do)
		s.Events[i].act = act
		errs = append(errs, err)
	}
	for _, e := range s.Always {
		if e.Most == nil {
			errs = append(errs, fmt.Errorf("%s: a busy machine admits less: write most, or expect", e.Figure))
		}
	}
	for _, all := range [][]Expectation{s.Always, s.Expect} {
		for i := range all {
			errs = append(errs, s.find(&all[i]))
		}
	}
	return errors.Join(errs...)
}

// readRules makes rules of the fields of the script, each with the key of the play.
func (s *Script) readRules() error {
	for _, fields := range s.Fields {
		name := fmt.Sprint(fields["name"])
		fields["key"], fields["match"] = []any{map[string]any{"header": playHeader}}, map[string]any{"path": "/" + name}
	}
	text, err := yaml.Marshal(s.Document)
	if err != nil {
		return err
	}
	set, err := rulefile.Parse(s.Name, text)
	for i := range s.Fields {
		if err == nil {
			r := set.Rule(i)
			s.Rules = append(s.Rules, Rule{r.Name, set.Limit(i, 0).Spec(), time.Duration(r.Timeout) * time.Microsecond, r.Scope == rule.ScopeGlobal})
		}
	}
	return err
}

// find finds the figure of an expectation, and its rule: the only one, if none is named.
func (s *Script) find(e *Expectation) error {
	figure, found := Figures[e.Name]
	if !found {
		return fmt.Errorf("%q is no figure: %s", e.Name, strings.Join(slices.Sorted(maps.Keys(Figures)), ", "))
	}
	e.Unit, e.of = figure.Unit, figure.of
	if _, e.most = e.span(); e.Rule == "" && len(s.Rules) == 1 {
		e.rule = &s.Rules[0]
	} else if e.rule = s.rule(e.Rule); e.rule == nil && (e.Rule != "" || e.Unit == Percent) {
		return fmt.Errorf("%s: %q is no rule of this script", e.Name, e.Rule)
	}
	return nil
}

func (s *Script) rule(name string) *Rule {
	for i := range s.Rules {
		if s.Rules[i].Name == name {
			return &s.Rules[i]
		}
	}
	return nil
}
