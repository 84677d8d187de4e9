package rulediff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
)

// version is a set of rules to compare.
type version struct {
	set    *rule.Set
	fields []map[string]string       // of each rule, as the compiled form has them
	names  []string                  // of rules as they are written, in their order
	parts  map[string]map[string]int // by such a name and suffixes: the rules that it was expanded into
	exempt []*rule.Rule              // the first rules of the set
	// unreached has what no request reaches, by the name of a rule and the code of a warning.
	unreached map[string]map[string]string
}

func newVersion(set *rule.Set, now time.Time) *version {
	v := &version{set: set, parts: map[string]map[string]int{}, unreached: map[string]map[string]string{}}
	var compiled struct{ Rules []map[string]json.RawMessage }
	_ = json.Unmarshal(set.Encode(), &compiled) // it is valid
	for i, raw := range compiled.Rules {
		r, fields := set.Rule(i), map[string]string{}
		for field, value := range raw {
			fields[field] = word(value)
		}
		v.fields = append(v.fields, fields)
		name := rule.Written(r.Name)
		if v.parts[name] == nil {
			v.names, v.parts[name], v.unreached[name] = append(v.names, name), map[string]int{}, map[string]string{}
		}
		v.parts[name][r.Name[len(name):]] = i
		if r.Mode == rule.Exempt {
			v.exempt = append(v.exempt, r)
		}
	}
	for _, w := range lint.Check(set, now) {
		if slices.Contains([]string{"never-matches", "always-exempt", "override-unreachable"}, w.Code) {
			v.unreached[rule.Written(w.Rule)][w.Code] = w.Field + " " + w.Reason
		}
	}
	return v
}

// word is a JSON value as people write it.
func word(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// unnamed is a written rule without its name.
func (v *version) unnamed(name string) string {
	all := map[string]any{}
	for suffix, i := range v.parts[name] {
		s := side{version: v, at: i, rule: v.set.Rule(i)}
		fields := map[string]string{"": fmt.Sprint(s.keys())}
		for field, value := range v.fields[i] {
			if field != "name" {
				fields[field] = value
			}
		}
		all[suffix] = fields
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// field is a field of the rule as the compiled form has it; empty: it is at its default.
func (s *side) field(name string) string {
	if s.rule == nil {
		return ""
	}
	return s.fields[s.at][name]
}

// settings are the fields that are compared as they stand, and defaults that are the same for all rules.
var settings = []struct{ field, def string }{
	{"mode", "enforce"}, {"from", "all rules"}, {"until", "no end"}, {"percent", "all keys"}, {"seed", ""}, {"limit", ""}, {"algorithm", ""},
	{"align", "clock"}, {"min_interval", "none"}, {"charge_denied", "false"}, {"cost", "1"}, {"key", "[]"}, {"hash", "false"}, {"scope", "region"},
	{"fair", "demand"}, {"consistency", "leased"}, {"overdraft", "1"}, {"on_failure", ""}, {"regions", ""}, {"timeout", ""}, {"lease", "the default"},
	{"headers", "draft"}, {"refusal", "the default"}, {"retry_jitter", "0"}, {"live", "on"},
}

// setting is a field for people.
func (s *side) setting(field, def string) string {
	r, regions := s.rule, s.set.Regions()
	switch m := &r.Match; {
	case s.field(field) != "":
		return s.field(field)
	case field == "until" && m.Until > 0:
		return clock(m.Until)
	case field == "percent" && m.Percent.To > 0:
		return fmt.Sprintf("%d to %d", m.Percent.From, m.Percent.To)
	case field == "seed" && strings.Contains(fmt.Sprint(s.fields[s.at]), `"percent":`):
		return fmt.Sprint(s.set.Seed())
	case field == "algorithm":
		return r.Scope.DefaultAlgorithm().String()
	case field == "on_failure":
		return r.Scope.DefaultOnFailure(regions).String()
	case field == "regions" && regions.Divide(r.Scope, r.OnFailure):
		return fmt.Sprint(regions)
	case field == "timeout":
		return rule.FormatPeriod(r.Timeout)
	}
	return def
}

func clock(at limit.Micros) string { return time.UnixMicro(int64(at)).UTC().Format(time.RFC3339) }

// own is a limit of some requests or of one key.
type own struct {
	text  string
	shape uint64 // see limit.Limit.Shape; 0: of a key
}

// overrides are those by attribute, by their names or conditions.
func (s *side) overrides() map[string]own {
	var list []struct {
		Name        string
		When, Limit json.RawMessage
	}
	_ = json.Unmarshal([]byte(s.field("overrides")), &list) // it is valid, or empty
	all := map[string]own{}
	for i, o := range list {
		name, text := "override "+string(o.When), word(o.Limit)
		if o.Name != "" {
			name, text = "override "+o.Name, text+" when "+string(o.When)
		}
		all[name] = own{text, s.set.Limit(s.at, i+1).Shape()}
	}
	return all
}

// keys are the limits of single keys.
func (s *side) keys() map[string]own {
	all := map[string]own{}
	for i := range s.rule.Keys {
		k := &s.rule.Keys[i]
		name, text := "key "+k.Hash, rule.Unlimited
		switch {
		case k.Hash != "":
		case s.rule.Hash:
			name = fmt.Sprintf("key %d, which is written in plain", i+1)
		default:
			name = "key " + string(s.rule.KeyOf(k.Key))
		}
		if !k.Unlimited {
			text = rule.FormatLimit(k.Limit)
		}
		if k.Until > 0 {
			text += " until " + clock(k.Until)
		}
		if before := all[name].text; before != "" {
			text = before + ", then " + text
		}
		all[name] = own{text: text}
	}
	return all
}

// used is the limit of a variant.
func (s *side) used(variant int) string {
	v := &s.rule.Limits[variant]
	switch {
	case variant == 0:
		return "the rule's own"
	case v.Unlimited:
		return cmp.Or(v.Name, fmt.Sprint(variant)) + " " + rule.Unlimited
	}
	return cmp.Or(v.Name, fmt.Sprint(variant)) + " " + rule.FormatLimit(v.Limit)
}
