package read

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// origin is where a document has an expanded rule.
type origin struct {
	rule   int // in rules
	window int // in limits; -1: the rule, or the variant, has limit
	// own is the path of the mapping with the fields that are stated for this rule alone, a variant or a candidate;
	// empty: there is none.
	own string
}

// candidate reports whether the rule is that of a candidate.
func (o *origin) candidate() bool { return strings.HasPrefix(o.own, "candidates[") }

// path returns the path in the document of a field of an expanded rule.
func (d *reader) path(o origin, field string) string {
	field = o.inLimits(field)
	at := strict.Index("rules", o.rule)
	own := cmp.Or(o.own, at)
	states := func(name string) bool { return d.doc.Node().At(own+"."+name) != nil }
	end := strings.IndexAny(field+".", ".[")
	switch condition := strings.TrimPrefix(field, "match."); {
	case condition == "percent" && o.own != "" && !o.candidate():
		return own + ".weight"
	case (condition == "percent" || condition == "until") && states(condition):
		return own + "." + condition
	case field[:end] == "limit" && o.candidate(), states(field[:end]):
		at = own
	}
	return at + "." + field
}

// inLimits returns a field with the index in limits, if the rule has these.
func (o *origin) inLimits(field string) string {
	start := 0
	if strings.HasPrefix(field, "overrides[") {
		start = strings.IndexByte(field, '.') + 1
	} else if o.candidate() {
		return field
	}
	if rest, ok := strings.CutPrefix(field[start:], "limit"); ok && o.window >= 0 && (rest == "" || rest[0] == '.') {
		return field[:start] + strict.Index("limits", o.window) + rest
	}
	return field
}

// place returns the path in the document for a path of package check, which knows the
// expanded rules alone, and the index of the rule there; -1: it is about no rule.
func (d *reader) place(path string) (string, int) {
	rest, ok := strings.CutPrefix(path, "rules[")
	number, field, found := strings.Cut(rest, "].")
	i, err := strconv.Atoi(number)
	if !ok || !found || err != nil {
		return path, -1
	}
	return d.path(d.origins[i], field), i
}
