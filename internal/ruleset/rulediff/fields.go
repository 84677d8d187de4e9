package rulediff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
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

// fieldsOf returns what each rule of a set states, as the compiled form has it: without what is at its default. The match of
// a rule that is not exempt is not among it: requests tell what that does.
func fieldsOf(set *rule.Set) (all []map[string]field) {
	var compiled struct {
		Rules         []map[string]json.RawMessage
		Seed, Regions json.RawMessage
	}
	_ = json.Unmarshal(set.Encode(), &compiled) // it is valid
	for i, raw := range compiled.Rules {
		r, fields, match := set.Rule(i), map[string]field{}, map[string]json.RawMessage{}
		_ = json.Unmarshal(raw["match"], &match) // it is valid, or not there
		raw["until"], raw["percent"] = match["until"], match["percent"]
		if strings.Contains(fmt.Sprintf("%s", raw), `"percent":`) {
			raw["seed"] = compiled.Seed
		}
		if set.Regions().Divide(r.Scope, r.OnFailure) {
			raw["regions"] = compiled.Regions
		}
		for name, value := range raw {
			fields[name] = field{text: word(value)}
		}
		fields["mode"] = field{text: r.Mode.String()}
		if r.Mode != rule.Exempt {
			delete(fields, "match")
		}
		if r.Limited() {
			fields["limit"] = field{text: fields["limit"].text, shape: set.Limit(i, 0).Shape(), room: roomOf(r.Limits[0].Limit, false)}
			overrides(fields, set, i)
			keys(fields, r)
		}
		shedFields(fields)
		delete(fields, "name")
		delete(fields, "overrides")
		all = append(all, fields)
	}
	return all
}

// word is a JSON value as people write it: words of the language have nothing to escape.
func word(raw []byte) string { return strings.Trim(string(raw), `"`) }

// overrides adds those by attribute, by their names or conditions.
func overrides(fields map[string]field, set *rule.Set, at int) {
	var list []struct {
		Name        string
		When, Limit json.RawMessage
	}
	_ = json.Unmarshal([]byte(fields["overrides"].text), &list) // it is valid, or empty
	for i, o := range list {
		name, text := "override "+string(o.When), word(o.Limit)
		if o.Name != "" {
			name, text = "override "+o.Name, text+" when "+string(o.When)
		}
		v := &set.Rule(at).Limits[i+1]
		fields[name] = field{text, set.Limit(at, i+1).Shape(), roomOf(v.Limit, v.Unlimited), string(o.When)}
	}
}

// shedFields adds what a rule has in place of a limit, each field as one of its own.
func shedFields(fields map[string]field) {
	var own map[string]json.RawMessage
	_ = json.Unmarshal([]byte(fields["shed"].text), &own) // it is valid, or empty
	for name, value := range own {
		fields["shed."+name] = field{text: word(value)}
	}
	delete(fields, "shed")
}

// keys adds the limits of single keys.
func keys(fields map[string]field, r *rule.Rule) {
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
		own := field{text: strings.TrimPrefix(fields[name].text+", then "+text, ", then ")}
		if own.text == text && k.Until == 0 {
			own.room = roomOf(k.Limit, k.Unlimited)
		}
		fields[name] = own
	}
}

// stated are the differences between what two versions state.
func stated(a, b *side) (all []Difference) {
	both := map[string]field{}
	maps.Copy(both, a.fields)
	maps.Copy(both, b.fields)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		x, y := a.fields[name], b.fields[name]
		if x.text == y.text || name == "match" && covers(a.rule, b.rule) && covers(b.rule, a.rule) {
			continue
		}
		c := Difference{What: name, Old: x.text, New: y.text, Effect: effectOf(name, a, b)}
		switch {
		case a.rule.Shed != nil || b.rule.Shed != nil: // which has no counters
		case slices.Contains(renewing, name) || x.shape != y.shape:
			c.Counters = "anew"
		case x.shape != 0 || strings.HasPrefix(name, "limit of "):
			c.Counters = "kept"
		}
		all = append(all, c)
	}
	return all
}
