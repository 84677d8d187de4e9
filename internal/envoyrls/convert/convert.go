// Package convert turns a configuration of envoyproxy/ratelimit into a rules file and a file of bindings, and lists the rate
// limits that it cannot convert.
//
// A server with the bindings and the configuration decides each request as with the configuration alone. A server with the
// bindings alone does so for every descriptor with a converted rate_limit. Rate limits that would be decided differently are
// left out, with the descriptors that depend on them:
//
//   - a wildcard, and a level for any value beside it: bindings have no wildcards, and a
//     binding for any value would also take the wildcard's values;
//   - rate limits that replace others, with the replaced ones;
//   - quota_mode.
//
// A level for one value without a binding is written as unbound if there is a binding for any value beside it: in both
// languages a descriptor with this value must not fall back to the level for any value.
package convert

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Options are the settings of weir-regional for the configuration, which in a rules
// file are the rule's.
type Options struct {
	Consistency    lease.Consistency
	OnFailure      lease.OnFailure
	ChargeRejected bool
}

// Result is what became of a configuration.
type Result struct {
	Rules, Bindings       []byte // the files
	RuleCount, BoundCount int    // how many rules and bindings
	// Names are the names of the rules, by the path of the rate limit.
	Names map[string]string
	// Remarks are about single rate limits, in the order of their kinds, then of the
	// files.
	Remarks []Remark
	// Notes are about all rules.
	Notes []string
}

// Left is how many rate limits were left out.
func (r *Result) Left() (n int) {
	for i := range r.Remarks {
		if r.Remarks[i].Kind.Left {
			n++
		}
	}
	return n
}

// Config converts a configuration that was read without a mistake. It is an error if the
// files would be too large.
func Config(c *descriptor.Config, o Options) (*Result, error) {
	w := converter{
		options:  o,
		names:    map[string]bool{},
		result:   Result{Names: map[string]string{}},
		replaced: replacedNames(c),
	}
	for _, domain := range c.Tree() {
		w.domain = domain.Key
		w.bindings = append(w.bindings, w.below(domain, place{})...)
	}
	return w.finish()
}

// converter walks the tree.
type converter struct {
	options  Options
	domain   string
	replaced map[[2]string]bool // domain and name of what is replaced
	names    map[string]bool    // those taken
	rules    []made
	bindings []bound
	result   Result
}

// place is the way to a level.
type place struct {
	steps []step
	left  *Kind // why all below is left out; nil: it is not
	by    string
}

// step is one entry of a descriptor.
type step struct {
	key, value string
	open       bool // any value
}

func (p place) down(s step) place {
	p.steps = append(p.steps[:len(p.steps):len(p.steps)], s)
	return p
}

func (p place) without(k *Kind, by string) place {
	if p.left == nil {
		p.left, p.by = k, by
	}
	return p
}

func (p place) entries() []entry {
	es := make([]entry, len(p.steps))
	for i, s := range p.steps {
		es[i].Key = s.key
		if !s.open {
			es[i].Value = s.value
		}
	}
	return es
}

// level converts a level and what is below it.
func (w *converter) level(l *descriptor.Level, p place) []bound {
	var out []bound
	if l.Rule != nil {
		out = w.rateLimit(l.Rule, p)
	}
	return append(out, w.below(l, p)...)
}

// below converts the levels below one.
func (w *converter) below(l *descriptor.Level, p place) (out []bound) {
	fates := judge(l.Below)
	parts := make([][]bound, len(l.Below))
	open := map[string]bool{} // keys with bindings for any value
	for i := range l.Below {
		child, fate := l.Below[i], fates[i]
		at := p.down(step{child.Key, child.Value, fate.open})
		if fate.kind != nil {
			at = at.without(fate.kind, fate.by)
		}
		parts[i] = w.level(child, at)
		open[child.Key] = open[child.Key] || fate.open && len(parts[i]) > 0
	}
	for i := range l.Below {
		child := l.Below[i]
		if len(parts[i]) == 0 && !fates[i].open && child.Value != "" && open[child.Key] {
			at := p.down(step{child.Key, child.Value, false})
			parts[i] = []bound{{Domain: w.domain, Descriptor: at.entries(), Unbound: true, from: located(child.File, child.Line, child.Path)}}
		}
		out = append(out, parts[i]...)
	}
	return out
}

// fate is how a level is converted because of those beside it.
type fate struct {
	open bool   // it is for any value
	kind *Kind  // why it is left out; nil: it is not
	by   string // the level that is why
}

// judge finds the fates of levels beside each other. A wildcard that is only stars is for
// any value, and a level for any value behind it is never reached.
func judge(levels []*descriptor.Level) []fate {
	type among struct{ star, wildcard *descriptor.Level }
	keys := map[string]*among{}
	for _, l := range levels {
		k := keys[l.Key]
		if k == nil {
			k = &among{}
			keys[l.Key] = k
		}
		switch {
		case !l.Wildcard || k.star != nil:
		case strings.Trim(l.Value, "*") == "":
			k.star = l
		case k.wildcard == nil:
			k.wildcard = l // before the star, if there is one
		}
	}
	fates := make([]fate, len(levels))
	for i, l := range levels {
		k := keys[l.Key]
		switch {
		case l.Wildcard && l != k.star:
			fates[i] = fate{kind: wildcard}
		case l.Value != "" && l != k.star:
		case l != k.star && k.star != nil:
			fates[i] = fate{kind: unreached, by: k.star.Path}
		case k.wildcard != nil:
			fates[i] = fate{open: true, kind: besideWildcard, by: k.wildcard.Path}
		case l.Shared:
			fates[i] = fate{open: true, kind: shared}
		default:
			fates[i] = fate{open: true}
		}
	}
	return fates
}

// rateLimit makes a rule of a rate limit, and its binding.
func (w *converter) rateLimit(r *descriptor.Rule, p place) []bound {
	if kind, detail := w.flaw(r, p); kind != nil {
		w.remark(kind, r, detail)
		return nil
	}
	name := w.name(r)
	w.result.Names[r.Path] = name
	w.rules = append(w.rules, w.rule(name, r, p))
	if len(r.Metadata) > 0 {
		w.remark(metadata, r, "")
	}
	if r.DetailedMetric || r.ValueToMetric {
		w.remark(metrics, r, "")
	}
	return []bound{{Domain: w.domain, Descriptor: p.entries(), Rule: name, from: located(r.File, r.Line, r.Path)}}
}

// flaw returns why a rate limit is left out; nil if it is not.
func (w *converter) flaw(r *descriptor.Rule, p place) (k *Kind, detail string) {
	open := 0
	for _, s := range p.steps {
		if s.open {
			open++
		}
	}
	switch {
	case p.left != nil:
		return p.left, p.by
	case w.replaced[[2]string{r.Domain, r.Name}] && r.Name != "":
		return replaced, "is named " + strict.Quote(r.Name)
	case w.replaces(r) != "":
		return replaces, "replaces " + strict.Quote(w.replaces(r))
	case r.Unlimited:
		return unlimited, ""
	case r.Quota:
		return quota, ""
	case len(p.steps) > binding.MaxEntries:
		return deep, fmt.Sprintf("has %d levels", len(p.steps))
	case open > rule.MaxParts:
		return deep, fmt.Sprintf("has %d levels for any value", open)
	case len(w.rules) == rule.MaxRules:
		return many, ""
	}
	return nil, ""
}

// replaces is the first name that a rate limit replaces and that there is.
func (w *converter) replaces(r *descriptor.Rule) string {
	for _, name := range r.Replaces {
		if w.replaced[[2]string{r.Domain, name}] {
			return name
		}
	}
	return ""
}

// replacedNames are the names of rate limits that others replace, by domain.
func replacedNames(c *descriptor.Config) map[[2]string]bool {
	names, replaced := map[[2]string]bool{}, map[[2]string]bool{}
	for r := range c.Rules() {
		names[[2]string{r.Domain, r.Name}] = true
	}
	for r := range c.Rules() {
		for _, name := range r.Replaces {
			if at := [2]string{r.Domain, name}; names[at] {
				replaced[at] = true
			}
		}
	}
	return replaced
}

func located(file string, line int, path string) string {
	return file + ":" + strconv.Itoa(line) + ": " + path
}

// finish writes the files.
func (w *converter) finish() (*Result, error) {
	r := &w.result
	var errs [2]error
	r.Rules, errs[0] = writeList(rulesHead, "rules", w.rules)
	r.Bindings, errs[1] = writeList(bindingsHead, "bindings", w.bindings)
	r.RuleCount, r.BoundCount = len(w.rules), len(w.bindings)
	switch err := errors.Join(errs[:]...); {
	case err != nil:
		return nil, err
	case len(r.Rules) > strict.MaxBytes:
		return nil, fmt.Errorf("the rules file would have %d bytes, at most %d are read; convert the domains one by one", len(r.Rules), strict.MaxBytes)
	case len(r.Bindings) > strict.MaxBytes:
		return nil, fmt.Errorf("the file of bindings would have %d bytes, at most %d are read; convert the domains one by one", len(r.Bindings), strict.MaxBytes)
	case len(w.bindings) > binding.MaxBindings:
		return nil, fmt.Errorf("there would be %d bindings, at most %d are read; convert the domains one by one", len(w.bindings), binding.MaxBindings)
	}
	w.arrange()
	return r, nil
}
