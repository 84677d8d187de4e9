package rulediff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
)

// field is what a rule states. Overrides are fields of their own, and so are limits of single keys.
type field struct {
	text  string
	shape uint64 // of a limit, see limit.Limit.Shape
	room  *room  // of a limit; nil: it is none, or depends on the time
	when  string // condition of an override
}

// renewing are the fields that name counters. Those of a limit go on if it keeps its shape.
var renewing = []string{"algorithm", "align", "hash", "key", "scope"}

// side is one version of a rule.
type side struct {
	*version
	rule        *rule.Rule       // if there is none, one that is off
	fields      map[string]field // what it states; nil: there is none
	overrides   []string         // the names of its fields for overrides, in their order
	unreachable string           // why no request reaches something of it
}

// version is a set of rules to compare.
type version struct {
	set   *rule.Set
	now   time.Time
	sides map[string]*side // by the name of the rule
}

func newVersion(set *rule.Set, now time.Time) *version {
	v := &version{set, now, map[string]*side{}}
	for i, s := range fieldsOf(set) {
		s.version = v
		v.sides[set.Rule(i).Name] = s
	}
	for _, w := range lint.Check(set, now) {
		if s := v.sides[w.Rule]; s != nil && slices.Contains([]string{"never-matches", "always-exempt", "override-unreachable"}, w.Code) {
			s.unreachable = w.Field + " " + w.Reason
		}
	}
	return v
}

// of is the rule with a name.
func (v *version) of(name string) *side {
	return cmp.Or(v.sides[name], &side{version: v, rule: &rule.Rule{Name: name, Mode: rule.Off}})
}

// fieldsOf returns what each rule of a set states, as the compiled form has it: without what is at its default.
func fieldsOf(set *rule.Set) (all []*side) {
	var compiled struct {
		Rules         []map[string]json.RawMessage
		Seed, Regions json.RawMessage
	}
	_ = json.Unmarshal(set.Encode(), &compiled) // it is valid
	for i, raw := range compiled.Rules {
		s := &side{rule: set.Rule(i), fields: map[string]field{}}
		if strings.Contains(fmt.Sprintf("%s", raw), `"percent":`) {
			raw["seed"] = compiled.Seed
		}
		if set.Regions().Divide(s.rule.Scope, s.rule.OnFailure) {
			raw["regions"] = compiled.Regions
		}
		for name, value := range raw {
			s.fields[name] = field{text: word(value)}
		}
		s.fields["mode"] = field{text: s.rule.Mode.String()}
		if s.rule.Limited() {
			s.fields["limit"] = field{text: s.fields["limit"].text, shape: set.Limit(i, 0).Shape(), room: roomOf(s.rule.Limits[0].Limit, false)}
			s.addOverrides(set, i)
			s.addKeys()
		}
		s.addShed()
		delete(s.fields, "name")
		delete(s.fields, "overrides")
		all = append(all, s)
	}
	return all
}

// word is a JSON value as people write it: words of the language have nothing to escape.
func word(raw []byte) string { return strings.Trim(string(raw), `"`) }

// addOverrides adds those by attribute, by their names or conditions.
func (s *side) addOverrides(set *rule.Set, at int) {
	var list []struct {
		Name        string
		When, Limit json.RawMessage
	}
	_ = json.Unmarshal([]byte(s.fields["overrides"].text), &list) // it is valid, or empty
	for i, o := range list {
		name, text := "override "+string(o.When), word(o.Limit)
		if o.Name != "" {
			name, text = "override "+o.Name, text+" when "+string(o.When)
		}
		v := &s.rule.Limits[i+1]
		s.fields[name] = field{text, set.Limit(at, i+1).Shape(), roomOf(v.Limit, v.Unlimited), string(o.When)}
		s.overrides = append(s.overrides, name)
	}
}

// orderIn is the order of the overrides that another version has, too.
func (s *side) orderIn(other *side) string {
	var names []string
	for _, name := range s.overrides {
		if slices.Contains(other.overrides, name) {
			names = append(names, strings.TrimPrefix(name, "override "))
		}
	}
	return strings.Join(names, ", ")
}

// addShed adds what a rule has in place of a limit, each field as one of its own.
func (s *side) addShed() {
	var own map[string]json.RawMessage
	_ = json.Unmarshal([]byte(s.fields["shed"].text), &own) // it is valid, or empty
	for name, value := range own {
		s.fields["shed."+name] = field{text: word(value)}
	}
	delete(s.fields, "shed")
}

// addKeys adds the limits of single keys.
func (s *side) addKeys() {
	r := s.rule
	for i := range r.Keys {
		k := &r.Keys[i]
		name, text := "limit of "+string(r.KeyOf(k.Key)), rule.Unlimited
		if r.Hash && !rule.IsHash(k.Key) { // the key is a secret
			name = fmt.Sprintf("limit of key %d, which is written in plain", i+1)
		}
		if !k.Unlimited {
			text = rule.FormatLimit(k.Limit)
		}
		if k.Until > 0 {
			text += " until " + rule.FormatTime(k.Until)
		}
		own := field{text: strings.TrimPrefix(s.fields[name].text+", then "+text, ", then ")}
		if own.text == text && k.Until == 0 {
			own.room = roomOf(k.Limit, k.Unlimited)
		}
		s.fields[name] = own
	}
}

// stated are the differences between what two versions state.
func stated(a, b *side) (all []Difference) {
	both := map[string]field{}
	maps.Copy(both, a.fields)
	maps.Copy(both, b.fields)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		x, y := a.fields[name], b.fields[name]
		if x.text == y.text || name == "match" && lint.Covers(&a.rule.Match, &b.rule.Match) && lint.Covers(&b.rule.Match, &a.rule.Match) {
			continue
		}
		c := Difference{What: name, Old: x.text, New: y.text, Effect: effectOf(name, a, b)}
		switch {
		case a.fields == nil || b.fields == nil:
		case a.rule.Shed != nil || b.rule.Shed != nil: // which has no counters
		case slices.Contains(renewing, name) || x.shape != y.shape:
			c.Counters = "anew"
		case x.shape != 0 || strings.HasPrefix(name, "limit of "):
			c.Counters = "kept"
		}
		all = append(all, c)
	}
	if x, y := a.orderIn(b), b.orderIn(a); x != y {
		all = append(all, Difference{What: "order of overrides", Old: x, New: y})
	}
	return all
}
