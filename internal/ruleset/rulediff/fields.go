package rulediff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// field is what a rule states. Overrides are fields of their own, and so are limits of single keys.
type field struct {
	text  string
	shape uint64 // of a limit, see limit.Limit.Shape
}

// renewing are the fields that name counters. Those of a limit go on if it keeps its shape.
var renewing = []string{"algorithm", "align", "hash", "key", "scope"}

// fieldsOf returns what each rule of a set states, as the compiled form has it: without what is at its default.
func fieldsOf(set *rule.Set) (all []map[string]field) {
	var compiled struct{ Rules []map[string]json.RawMessage }
	_ = json.Unmarshal(set.Encode(), &compiled) // it is valid
	for i, raw := range compiled.Rules {
		r, fields := set.Rule(i), map[string]field{}
		for name, value := range raw {
			fields[name] = field{text: word(value)}
		}
		fields["mode"] = field{text: r.Mode.String()}
		if r.Match.Until > 0 {
			fields["until"] = field{text: clock(r.Match.Until)}
		}
		if p := r.Match.Percent; p.To > 0 {
			fields["percent"] = field{text: fmt.Sprintf("%d to %d", p.From, p.To)}
		}
		if strings.Contains(fmt.Sprintf("%s", raw), `"percent":`) {
			fields["seed"] = field{text: fmt.Sprint(set.Seed())}
		}
		if regions := set.Regions(); regions.Divide(r.Scope, r.OnFailure) {
			fields["regions"] = field{text: fmt.Sprint(regions)}
		}
		if r.Mode != rule.Exempt {
			fields["limit"] = field{fields["limit"].text, set.Limit(i, 0).Shape()}
			overrides(fields, set, i)
			keys(fields, r)
		}
		delete(fields, "name")
		delete(fields, "overrides")
		all = append(all, fields)
	}
	return all
}

// word is a JSON value as people write it.
func word(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func clock(at limit.Micros) string { return time.UnixMicro(int64(at)).UTC().Format(time.RFC3339) }

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
		fields[name] = field{text, set.Limit(at, i+1).Shape()}
	}
}

// keys adds the limits of single keys.
func keys(fields map[string]field, r *rule.Rule) {
	for i := range r.Keys {
		k := &r.Keys[i]
		name, text := "limit of "+k.Hash, rule.Unlimited
		if k.Hash == "" {
			name += string(r.KeyOf(k.Key))
		}
		if k.Hash == "" && r.Hash { // it is a secret
			name = fmt.Sprintf("limit of key %d, which is written in plain", i+1)
		}
		if !k.Unlimited {
			text = rule.FormatLimit(k.Limit)
		}
		if k.Until > 0 {
			text += " until " + clock(k.Until)
		}
		if before := fields[name].text; before != "" {
			text = before + ", then " + text
		}
		fields[name] = field{text: text}
	}
}

// stated are the differences between what two versions state, but for their match.
func stated(a, b map[string]field) (all []Change) {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		x, y := a[name], b[name]
		if name == "match" || x.text == y.text {
			continue
		}
		c := Change{What: name, Old: x.text, New: y.text}
		switch {
		case slices.Contains(renewing, name) || x.shape != y.shape:
			c.Counters = "anew"
		case x.shape != 0 || strings.HasPrefix(name, "limit of "):
			c.Counters = "kept"
		}
		all = append(all, c)
	}
	return all
}
