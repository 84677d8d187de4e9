package regions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Kind is the word with which an expectation begins. It says in which plays the bound has to hold.
type Kind string

// The kinds.
const (
	Always Kind = "always" // safety, what happens at most: in every play
	Expect Kind = "expect" // latency and fairness: in the first play, or in two others
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
	e.Bound, err = readBound(strings.TrimSpace(bound), f.Unit)
	e.Figure.most = e.Bound.Most
	s.Expect = append(s.Expect, e)
	if err == nil && kind == Always && e.Bound.Least > math.Inf(-1) {
		err = fmt.Errorf("a busy machine admits less: write at most, or expect")
	}
	return err
}

// readFigure reads: NAME [under RULE] [in REGION] [from TIME] [to TIME]
func (s *Script) readFigure(words []string) (f Figure, err error) {
	options := []string{"under", "in", "from", "to"}
	n := slices.IndexFunc(words, func(w string) bool { return slices.Contains(options, w) })
	if n < 0 {
		n = len(words)
	}
	name := strings.Join(words[:n], " ")
	f, found := Figures[name]
	if !found {
		return f, fmt.Errorf("%q is no figure: %s", name, strings.Join(slices.Sorted(maps.Keys(Figures)), ", "))
	}
	for rest := words[n:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) == 1 {
			return f, fmt.Errorf("%s is followed by nothing", rest[0])
		}
		if err := s.option(&f, rest[0], rest[1]); err != nil {
			return f, err
		}
	}
	if f.Unit == Percent && f.rule == nil {
		if len(s.Rules) != 1 {
			return f, fmt.Errorf("%s is of one rule: write under RULE behind it, or one rule above it", name)
		}
		f.rule = &s.Rules[0]
	}
	return f, nil
}

// option reads one option of a figure.
func (s *Script) option(f *Figure, name, value string) (err error) {
	switch name {
	case "under":
		f.rule, err = s.rule(value), s.isRule(value)
	case "in":
		f.Region, err = value, isRegion(value)
	case "from":
		f.From, err = readTime(value)
	case "to":
		f.To, err = readTime(value)
	default:
		err = fmt.Errorf("%q is no option of a figure", name)
	}
	return err
}
