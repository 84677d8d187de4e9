package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
)

// name finds a name for the rule of a rate limit: its own, or one made of its domain,
// keys and values. The first in the files has the shorter name, so that what is
// added behind renames nothing: a rule with a new name has new counters.
func (w *converter) name(r *descriptor.Rule) string {
	if legalName(r.Name) && !w.names[r.Name] {
		w.names[r.Name] = true
		return r.Name
	}
	name, hash := nameOf(r.Path), hashOf(r.Path)
	if len(name) > rule.MaxName {
		name = shorten(name, hash)
	}
	for n := 1; w.names[name]; n++ {
		name = shorten(name, hash)
		if n > 1 {
			name = shorten(name, strconv.Itoa(n))
		}
	}
	w.names[name] = true
	return name
}

func legalName(s string) bool {
	return s != "" && len(s) <= rule.MaxName && strings.IndexFunc(s, func(r rune) bool { return !rule.IsNameRune(r) }) < 0
}

// nameOf keeps of a text what a name may have, and writes one - for all between.
func nameOf(s string) string {
	name := strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !rule.IsNameRune(r) }), "-")
	if name == "" {
		return "rule"
	}
	return name
}

// shorten gives a name an end that makes it different from others.
func shorten(name, end string) string {
	return name[:min(len(name), rule.MaxName-1-len(end))] + "-" + end
}

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// rule makes the rule of a rate limit. Open values are the parts of its key; the others
// are its conditions, which are for PoPs alone.
func (w *converter) rule(name string, r *descriptor.Rule, p place) rule.Rule {
	spec := r.Limit.Spec()
	spec.ChargeDenied = w.options.ChargeDenied
	out := rule.Rule{Name: name, Limits: []rule.Variant{{Limit: spec}}, Consistency: w.options.Consistency, OnFailure: w.options.OnFailure}
	if r.Shadow {
		out.Mode = rule.Shadow
	}
	for _, s := range p.steps {
		if s.open {
			source, _ := sourceOf(s.key)
			out.Key = append(out.Key, rule.Part{source})
		} else {
			addCondition(&out.Match, s)
		}
	}
	return out
}

// sourceOf is where PoPs find the value that Envoy sends under a key. known is false if
// it depends on the configuration of Envoy's routes.
func sourceOf(key string) (s rule.Source, known bool) {
	switch key {
	case "remote_address":
		return rule.Source{From: rule.FromClientIP, IPv6Prefix: 128}, true
	case "path", ":path":
		return rule.Source{From: rule.FromPath}, true
	case "method", ":method":
		return rule.Source{From: rule.FromMethod}, true
	}
	name := strings.ToLower(key)
	source := rule.Source{From: rule.FromHeader, Name: name}
	if strings.Contains(name, "-") && legal(rule.Rule{Key: []rule.Part{{source}}}) {
		return source, true
	}
	source.Name = placeholder(key)
	return source, false
}

// stands begins the names of headers that are placeholders for values of Envoy's routes.
// No client sends one by itself.
const stands = "x-descriptor-"

func placeholder(key string) string {
	name := strings.ReplaceAll(strings.ToLower(nameOf(key)), "_", "-")
	return stands + name[:min(len(name), rule.MaxName)]
}

// inert reports whether a rule does nothing at PoPs as it is: it needs a header that
// stands for something else.
func inert(r *rule.Rule) bool {
	return slices.ContainsFunc(r.Match.Headers, func(h rule.HeaderMatch) bool { return strings.HasPrefix(h.Name, stands) }) ||
		slices.ContainsFunc(r.Key, func(p rule.Part) bool { return strings.HasPrefix(p[0].Name, stands) })
}

// addCondition adds the condition on requests at a PoP that stands for a value.
func addCondition(m *rule.Match, s step) {
	source, _ := sourceOf(s.key)
	exact := rule.Text{Op: rule.OpExact, Arg: s.value}
	switch source.From {
	case rule.FromPath:
		if c := (rule.Match{Paths: []rule.Text{exact}}); len(m.Paths) == 0 && legal(rule.Rule{Match: c}) {
			m.Paths = c.Paths
			return
		}
	case rule.FromMethod:
		if c := (rule.Match{Methods: []string{s.value}}); len(m.Methods) == 0 && legal(rule.Rule{Match: c}) {
			m.Methods = c.Methods
			return
		}
	}
	name := source.Name
	if source.From != rule.FromHeader {
		name = placeholder(s.key)
	}
	h := rule.HeaderMatch{Name: name, Text: exact}
	taken := func(o rule.HeaderMatch) bool { return o.Name == h.Name }
	for n := 2; slices.ContainsFunc(m.Headers, taken); n++ {
		h.Name = name + "-" + strconv.Itoa(n)
	}
	if !legal(rule.Rule{Match: rule.Match{Headers: []rule.HeaderMatch{h}}}) {
		h.Text = rule.Text{Op: rule.OpPresent} // a value too long for a condition
	}
	m.Headers = append(m.Headers, h)
}

// legal reports whether a rule's key and conditions are.
func legal(r rule.Rule) bool {
	r.Name = "r"
	r.Limits = []rule.Variant{{Limit: limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Minute}}}
	_, err := check.New([]rule.Rule{r})
	return err == nil
}
