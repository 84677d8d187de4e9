package regions

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Names are the regions.
var Names = []string{"eu", "us", "ap"}

// Script is one script, read.
type Script struct {
	Name    string // of its file, without the ending
	Rules   []Rule
	Weights map[string]int // of shares, by region
	Trip    time.Duration
	Align   time.Duration // of its beginning to the clock
	Left    Left          // of a window in which it is played
	Loads   []Offer
	Events  []Event // by time
	Expect  []Expectation
}

// Rule is a rule that a script brings.
type Rule struct {
	Name    string
	Spec    limit.Spec
	Timeout time.Duration
	Global  bool // all regions share it
	yaml    map[string]any
}

// Offer is a load on one region.
type Offer struct {
	From, To  time.Duration
	Region    string
	PerSecond float64
	Rule      string
}

// Left has a script begin when at least Least is left of the window of the clock of length Window. The zero
// value demands nothing.
type Left struct{ Least, Window time.Duration }

// Event is something that is done to the world.
type Event struct {
	At  time.Duration
	Act Action
}

// Last is when the last load ends.
func (s *Script) Last() (last time.Duration) {
	for _, l := range s.Loads {
		last = max(last, l.To)
	}
	return last
}

// Parse reads a script. The error has the file and the line.
func Parse(file, name, text string) (*Script, error) {
	s := &Script{Name: name, Weights: equalWeights(), Align: time.Second}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.line(words); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if len(s.Loads) == 0 || len(s.Expect) == 0 {
		return nil, fmt.Errorf("%s: a script offers something and expects something", file)
	}
	return s, nil
}

// ReadAll reads the scripts of a directory, by name.
func ReadAll(dir string) ([]*Script, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err == nil && len(files) == 0 {
		err = errors.New("no scripts in " + dir)
	}
	var all []*Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := Parse(file, strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, err
}

// line reads one line, by its first word.
func (s *Script) line(words []string) (err error) {
	rest := strings.Join(words[1:], " ")
	switch words[0] {
	case "rule":
		return s.readRule(rest)
	case "regions":
		return s.readWeights(rest)
	case "trip":
		s.Trip, err = readTime(rest)
		return err
	case "begin":
		return s.begin(rest)
	case "from":
		return s.offer(words)
	case "at":
		return s.event(words[1:])
	case string(Always), string(Expect):
		return s.expect(Kind(words[0]), rest)
	}
	return fmt.Errorf("no line begins with %q", words[0])
}

// readRule reads: NAME { FIELDS }
func (s *Script) readRule(text string) error {
	name, fields, _ := strings.Cut(text, " ")
	r := Rule{Name: name, yaml: map[string]any{}}
	if err := yaml.Unmarshal([]byte(fields), &r.yaml); err != nil {
		return fmt.Errorf("rule %s: %w", name, err)
	}
	r.yaml["name"], r.yaml["key"] = name, []any{map[string]any{"header": playHeader}}
	r.yaml["match"] = map[string]any{"path": "/" + name}
	text, err := (&Script{Rules: []Rule{r}, Weights: equalWeights()}).Document()
	if err != nil {
		return err
	}
	set, err := rulefile.Parse(name, []byte(text))
	if err != nil {
		return err
	}
	r.Spec, r.Timeout = set.Limit(0, 0).Spec(), time.Duration(set.Rule(0).Timeout)*time.Microsecond
	r.Global = set.Rule(0).Scope == rule.ScopeGlobal
	s.Rules = append(s.Rules, r)
	return nil
}

// readWeights reads: { REGION: WEIGHT, ... }
func (s *Script) readWeights(text string) error {
	s.Weights = map[string]int{}
	if err := yaml.Unmarshal([]byte(text), &s.Weights); err != nil {
		return fmt.Errorf("regions: %w", err)
	}
	for name := range s.Weights {
		if err := isRegion(name); err != nil {
			return err
		}
	}
	_, err := s.Document()
	return err
}

// begin reads: at a multiple of TIME, or: with TIME left of TIME
func (s *Script) begin(text string) (err error) {
	if least, of, found := strings.Cut(text, " left of "); found {
		if s.Left.Window, err = readTime(of); err == nil {
			s.Left.Least, err = readTime(strings.TrimPrefix(least, "with "))
		}
		if err == nil && s.Left.Least >= s.Left.Window {
			err = fmt.Errorf("%s is not less than %s", s.Left.Least, s.Left.Window)
		}
		return err
	}
	at, found := strings.CutPrefix(text, "at a multiple of ")
	if !found {
		return fmt.Errorf("%q: want begin at a multiple of TIME, or begin with TIME left of TIME", text)
	}
	s.Align, err = readTime(at)
	if err == nil && s.Align%time.Second != 0 {
		err = fmt.Errorf("%s is not whole seconds", at)
	}
	return err
}

// offer reads: from TIME to TIME REGION offers N/s of RULE
func (s *Script) offer(w []string) error {
	if len(w) != 9 || w[2] != "to" || w[5] != "offers" || w[7] != "of" {
		return fmt.Errorf("want from TIME to TIME REGION offers N/s of RULE")
	}
	o := Offer{Region: w[4], Rule: w[8]}
	var err error
	if o.From, o.To, err = readSpan(w[1], w[3]); err != nil {
		return err
	}
	if o.PerSecond, err = Rate.value(w[6]); err != nil {
		return err
	}
	s.Loads = append(s.Loads, o)
	return errors.Join(s.isRule(o.Rule), isRegion(o.Region))
}

// event reads: TIME ACTION
func (s *Script) event(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("want at TIME ACTION")
	}
	at, err := readTime(words[0])
	if err != nil {
		return err
	}
	act, err := readAction(words[1:])
	if err == nil {
		err = s.canDo(act)
	}
	s.Events = append(s.Events, Event{at, act})
	return err
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

// rule is the one of that name; nil if there is none.
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

func readTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s is not a time, such as 1.5s", strconv.Quote(text))
	}
	return d, nil
}

func readSpan(from, to string) (a, b time.Duration, err error) {
	if a, err = readTime(from); err == nil {
		b, err = readTime(to)
	}
	if err == nil && b <= a {
		err = fmt.Errorf("from %s to %s is no time at all", from, to)
	}
	return a, b, err
}
