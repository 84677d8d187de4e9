package regions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rulefile"
)

// Names are the regions.
var Names = []string{"eu", "us", "ap"}

// Script is one script, read.
type Script struct {
	Name    string // of its file, without the ending
	Rules   []Rule
	Weights map[string]int           // of static shares, by region
	Trips   map[string]time.Duration // by region
	Align   time.Duration            // of its beginning to the clock
	Shared  bool                     // two aggregators share a Redis
	Loads   []Offer
	Events  []Event // by time
	Expect  []Expectation
}

// Rule is a rule that a script brings.
type Rule struct {
	Name    string
	Spec    limit.Spec
	Timeout time.Duration
	yaml    map[string]any
}

// Offer is a load on one region.
type Offer struct {
	From, To  time.Duration
	Region    string
	PerSecond float64
	Rule      string // "": a path without a rule
}

// Event is something that is done to the world.
type Event struct {
	At  time.Duration
	Act Action
}

// Expectation is a figure and what it should be.
type Expectation struct {
	Text     string // what of it stands before the bound
	Figure   Figure
	Promise  Bound
	Accepted Bound // short of it the script fails; Promise by default
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
	s := &Script{Name: name, Weights: equalWeights(), Trips: map[string]time.Duration{}, Align: time.Second}
	for _, r := range Names {
		s.Trips[r] = 0
	}
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
	slices.SortStableFunc(s.Events, func(a, b Event) int { return int(a.At - b.At) })
	if len(s.Loads) == 0 || len(s.Expect) == 0 {
		return nil, fmt.Errorf("%s: a script offers something and expects something", file)
	}
	return s, nil
}

// line reads one line, by its first word.
func (s *Script) line(words []string) error {
	rest := strings.Join(words[1:], " ")
	switch words[0] {
	case "rule":
		return s.readRule(rest)
	case "regions":
		return s.weights(rest)
	case "trip":
		return s.trip(words[1:])
	case "two":
		return s.two(rest)
	case "begin":
		return s.begin(rest)
	case "from":
		return s.offer(words)
	case "at":
		return s.event(words[1:])
	case "expect":
		return s.expect(rest)
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
	r.yaml["name"], r.yaml["key"] = name, []any{}
	r.yaml["match"] = map[string]any{"path": "/" + name}
	text, err := Document([]*Script{{Rules: []Rule{r}}})
	if err != nil {
		return err
	}
	set, err := rulefile.Parse(name, []byte(text))
	if err != nil {
		return err
	}
	r.Spec, r.Timeout = set.Limit(0, 0).Spec(), time.Duration(set.Rule(0).Timeout)*time.Microsecond
	s.Rules = append(s.Rules, r)
	return nil
}

// weights reads: { REGION: WEIGHT, ... }
func (s *Script) weights(text string) error {
	s.Weights = map[string]int{}
	if err := yaml.Unmarshal([]byte(text), &s.Weights); err != nil {
		return fmt.Errorf("regions: %w", err)
	}
	for name := range s.Weights {
		if err := isRegion(name); err != nil {
			return err
		}
	}
	text, err := Document([]*Script{s})
	if err == nil {
		_, err = weighted(text, s.Weights)
	}
	return err
}

// trip reads: [REGION] TIME
func (s *Script) trip(words []string) error {
	names := Names
	if len(words) == 2 {
		names = words[:1]
	}
	if len(words) == 0 || len(words) > 2 {
		return fmt.Errorf("trip takes a time, or a region and a time")
	}
	d, err := readTime(words[len(words)-1])
	for _, name := range names {
		if err == nil {
			err = isRegion(name)
		}
		s.Trips[name] = d
	}
	return err
}

// two reads: aggregators share a redis
func (s *Script) two(text string) error {
	if text != "aggregators share a redis" {
		return fmt.Errorf("%q: want two aggregators share a redis", text)
	}
	s.Shared = true
	return nil
}

// begin reads: at a multiple of TIME
func (s *Script) begin(text string) (err error) {
	at, found := strings.CutPrefix(text, "at a multiple of ")
	if !found {
		return fmt.Errorf("%q: want begin at a multiple of TIME", text)
	}
	s.Align, err = readTime(at)
	if err == nil && s.Align%time.Second != 0 {
		err = fmt.Errorf("%s is not whole seconds", at)
	}
	return err
}

// offer reads: from TIME to TIME REGION offers N/s of RULE, or of no rule
func (s *Script) offer(w []string) error {
	if len(w) < 9 || w[2] != "to" || w[5] != "offers" || w[7] != "of" {
		return fmt.Errorf("want from TIME to TIME REGION offers N/s of RULE")
	}
	o := Offer{Region: w[4]}
	var err error
	if o.From, o.To, err = readSpan(w[1], w[3]); err != nil {
		return err
	}
	if o.PerSecond, err = Rate.value(w[6]); err != nil {
		return err
	}
	if strings.Join(w[8:], " ") != "no rule" {
		o.Rule = w[8]
		if err := s.isRule(o.Rule); err != nil || len(w) > 9 {
			return fmt.Errorf("%q is no rule of this script", strings.Join(w[8:], " "))
		}
	}
	s.Loads = append(s.Loads, o)
	return isRegion(o.Region)
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
	if err == nil && act.rule != "" {
		err = s.isRule(act.rule)
	}
	if err == nil && act.limit != "" {
		err = s.canHave(act.rule, act.limit)
	}
	if err == nil && strings.HasSuffix(act.Text, " at the aggregator") && !s.Shared {
		err = fmt.Errorf("an aggregator alone has no redis: write two aggregators share a redis above it")
	}
	s.Events = append(s.Events, Event{at, act})
	return err
}

// canHave reports what is wrong with another limit of a rule.
func (s *Script) canHave(rule, limit string) error {
	text, err := Document([]*Script{s})
	if err == nil {
		_, err = limited(text, rule, limit)
	}
	return err
}

// expect reads: FIGURE: BOUND[; fails BOUND]
func (s *Script) expect(text string) error {
	subject, bounds, found := strings.Cut(text, ":")
	if !found {
		return fmt.Errorf("want expect FIGURE: BOUND")
	}
	f, err := s.readFigure(strings.Fields(subject))
	if err != nil {
		return err
	}
	promise, fails, two := strings.Cut(bounds, "; fails ")
	promise = strings.TrimSpace(promise)
	e := Expectation{Text: subject, Figure: f}
	if e.Promise, err = readBound(promise, f.Unit); err != nil {
		return err
	}
	e.Accepted = e.Promise
	if two {
		if e.Accepted, err = readFailure(strings.TrimSpace(fails), f.Unit); err != nil {
			return err
		}
	}
	s.Expect = append(s.Expect, e)
	return nil
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

// watchesReplicas reports whether a figure of the script needs that they are asked all the time.
func (s *Script) watchesReplicas() bool {
	return slices.ContainsFunc(s.Expect, func(e Expectation) bool { return e.Figure.watch })
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
