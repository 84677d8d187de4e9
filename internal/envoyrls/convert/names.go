package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
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
	for ; w.names[name]; hash = hashOf(hash) {
		name = shorten(name, hash)
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

// rule makes the rule of a rate limit. Open values are the parts of its key, the others its
// conditions. PoPs find neither by themselves, as it depends on the configuration of Envoy's
// routes what is sent under a key: a header stands for each.
func (w *converter) rule(name string, r *descriptor.Rule, p place) made {
	m := made{
		Name: name, Limit: rule.FormatLimit(r.Limit.Spec()), Algorithm: limit.FixedWindow.String(), ChargeRejected: w.options.ChargeRejected,
		Match: conditions{map[string]any{}}, from: located(r.File, r.Line, r.Path),
	}
	if r.Shadow {
		m.Mode = rule.Shadow.String()
	}
	if w.options.Consistency != lease.Leased {
		m.Consistency = w.options.Consistency.String()
	}
	if w.options.OnFailure != lease.FailureAllow {
		m.OnFailure = w.options.OnFailure.String()
	}
	for _, s := range p.steps {
		if s.open {
			m.Key = append(m.Key, header{placeholder(s.key)})
		} else {
			m.Match.add(s)
		}
	}
	return m
}

// placeholder is the header that stands for the value of a key. No client sends one by itself.
func placeholder(key string) string {
	name := strings.ReplaceAll(strings.ToLower(nameOf(key)), "_", "-")
	return "x-descriptor-" + name[:min(len(name), rule.MaxName)]
}

// add adds the condition on requests at a PoP that stands for a value.
func (c *conditions) add(s step) {
	base := placeholder(s.key)
	name := base
	for n := 2; c.Header[name] != nil; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	c.Header[name] = s.value
	if len(s.value) > rule.MaxText {
		c.Header[name] = present{true}
	}
}
