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
	Name   string           `yaml:"-"` // of its file, without the ending
	Fields []map[string]any `yaml:"rules"`
	Shares map[string]int   `yaml:"regions"`
	Trip   time.Duration
	Align  time.Duration // of its beginning to the clock
	Left   Left          // of a window in which it is played
	Loads  []Offer
	Events []Event // by time

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

// Left has a script begin when at least Least is left of the window of the clock of length Window. The zero
// value demands nothing.
type Left struct {
	Least  time.Duration
	Window time.Duration `yaml:"of"`
}

// Event is something that is done to the world.
type Event struct {
	At  time.Duration
	Do  string
	act Action
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
	s := &Script{Name: name, Align: time.Second}
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

// check finds what a script names, and what is wrong with it.
func (s *Script) check() error {
	if s.Shares == nil {
		s.Shares = equalWeights()
	}
	errs := []error{s.readRules()}
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(len(s.Loads) == 0 || len(s.Always)+len(s.Expect) == 0, "a script offers something and expects something")
	wrong(s.Align%time.Second != 0, "align: %s is not whole seconds", s.Align)
	wrong(s.Left.Least > 0 && s.Left.Least >= s.Left.Window, "left: %s is not less than %s", s.Left.Least, s.Left.Window)
	for region := range s.Shares {
		errs = append(errs, isRegion(region))
	}
	for _, l := range s.Loads {
		errs = append(errs, s.isRule(l.Rule), isRegion(l.Region))
		wrong(l.To <= l.From, "from %s to %s is no time at all", l.From, l.To)
	}
	for i := range s.Events {
		act, err := readAction(strings.Fields(s.Events[i].Do))
		s.Events[i].act = act
		errs = append(errs, err, s.canDo(act))
	}
	for i := range s.Always {
		errs = append(errs, s.find(&s.Always[i]))
		wrong(s.Always[i].Least != nil || s.Always[i].Near != nil, "%s: a busy machine admits less: write most, or expect", s.Always[i].Figure)
	}
	for i := range s.Expect {
		errs = append(errs, s.find(&s.Expect[i]))
	}
	return errors.Join(errs...)
}

// readRules makes rules of the fields of the script, each with the key of the play.
func (s *Script) readRules() error {
	for _, fields := range s.Fields {
		name := fmt.Sprint(fields["name"])
		fields["key"], fields["match"] = []any{map[string]any{"header": playHeader}}, map[string]any{"path": "/" + name}
	}
	text, err := s.Document()
	if err != nil {
		return err
	}
	set, err := rulefile.Parse(s.Name, []byte(text))
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
	e.Unit, e.of, e.most = figure.Unit, figure.of, e.span()[1]
	if e.Region != "" {
		if err := isRegion(e.Region); err != nil {
			return err
		}
	}
	if e.Rule == "" && e.Unit != Percent {
		return nil
	}
	if e.Rule == "" && len(s.Rules) == 1 {
		e.rule = &s.Rules[0]
		return nil
	}
	e.rule = s.rule(e.Rule)
	return s.isRule(e.Rule)
}

// canDo reports what is wrong with an action in this script.
func (s *Script) canDo(act Action) error {
	if act.rule == "" {
		return nil
	}
	if err := s.isRule(act.rule); err != nil || act.limit == "" {
		return err
	}
	text, err := s.Document()
	if err == nil {
		_, err = limited(text, act.rule, act.limit)
	}
	return err
}

func (s *Script) rule(name string) *Rule {
	for i := range s.Rules {
		if s.Rules[i].Name == name {
			return &s.Rules[i]
		}
	}
	return nil
}

func (s *Script) isRule(name string) error {
	if s.rule(name) != nil {
		return nil
	}
	return fmt.Errorf("%q is no rule of this script", name)
}

func isRegion(name string) error {
	if slices.Contains(Names, name) {
		return nil
	}
	return fmt.Errorf("%q is no region: %s", name, strings.Join(Names, ", "))
}
