package regions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expectation is a figure and what it should be.
type Expectation struct {
	Kind   Kind
	Text   string // what of it stands before the bound
	Figure Figure
	Bound  Bound
}

// expect reads: FIGURE: BOUND
func (s *Script) expect(kind Kind, text string) error {
	subject, bound, found := strings.Cut(text, ":")
	if !found {
		return fmt.Errorf("want %s FIGURE: BOUND", kind)
	}
	f, err := s.readFigure(strings.Fields(subject))
	if err != nil {
		return err
	}
	e := Expectation{Kind: kind, Text: subject, Figure: f}
	if e.Bound, err = readBound(strings.TrimSpace(bound), f.Unit); err != nil {
		return err
	}
	e.Figure.most = e.Bound.Most
	s.Expect = append(s.Expect, e)
	return f.suits(kind, e.Bound)
}

// readFigure reads: NAME [under RULE] [in REGION] [from TIME] [to TIME] [begun TIME after ACTION]
func (s *Script) readFigure(words []string) (Figure, error) {
	options := []string{"under", "in", "from", "to", "begun"}
	n := slices.IndexFunc(words, func(w string) bool { return slices.Contains(options, w) })
	if n < 0 {
		n = len(words)
	}
	name := strings.Join(words[:n], " ")
	f, found := Figures[name]
	if !found {
		return f, fmt.Errorf("%q is no figure: %s", name, strings.Join(slices.Sorted(maps.Keys(Figures)), ", "))
	}
	for rest := words[n:]; len(rest) > 0; {
		option, value := rest[0], rest[1:]
		if option != "begun" {
			value = value[:min(1, len(value))]
		}
		if len(value) == 0 {
			return f, fmt.Errorf("%s is followed by nothing", option)
		}
		if err := s.option(&f, option, value); err != nil {
			return f, err
		}
		rest = rest[1+len(value):]
	}
	switch {
	case f.Unit == Percent && f.rule == nil && len(s.Rules) != 1:
		return f, fmt.Errorf("%s is of one rule: write under RULE behind it, or one rule above it", name)
	case f.Unit == Percent && f.rule == nil:
		f.rule = &s.Rules[0]
	case f.watch && f.Region == "":
		return f, fmt.Errorf("%s is of one region: write in REGION behind it", name)
	}
	return f, nil
}

// option reads one option of a figure.
func (s *Script) option(f *Figure, name string, value []string) (err error) {
	switch name {
	case "under":
		f.rule, err = s.rule(value[0]), s.isRule(value[0])
	case "in":
		f.Region, err = value[0], isRegion(value[0])
	case "from":
		f.From, err = readTime(value[0])
	case "to":
		f.To, err = readTime(value[0])
	case "begun":
		f.Begun, err = s.readBegun(value)
	default:
		err = fmt.Errorf("%q is no option of a figure", name)
	}
	return err
}

// readBegun reads: TIME after ACTION
func (s *Script) readBegun(words []string) (b Begun, err error) {
	if len(words) < 3 || words[1] != "after" {
		return b, fmt.Errorf("want begun TIME after ACTION")
	}
	b.After = strings.Join(words[2:], " ")
	times := 0
	for _, e := range s.Events {
		if e.Act.Text == b.After {
			times++
		}
	}
	if times != 1 {
		return b, fmt.Errorf("%q is done %d times in this script, above the expectation: want once", b.After, times)
	}
	b.Wait, err = readTime(words[0])
	return b, err
}
