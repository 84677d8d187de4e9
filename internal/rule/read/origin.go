package read

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// origin is where a document has an expanded rule.
type origin struct {
	rule      int // in rules
	window    int // in limits; -1: the rule, or the variant, has limit
	variant   int // in variants; -1: none
	candidate int // in candidates; -1: none
}

// path returns the path in the document of a field of an expanded rule.
func (d *reader) path(o origin, field string) string {
	doc, field := d.doc.Node(), o.inLimits(field)
	at := strict.Index("rules", o.rule)
	written := &doc.Field("rules").Items[o.rule]
	own, ownAt := written, at // the mapping with the fields that are stated for this rule alone
	switch {
	case o.candidate >= 0:
		own, ownAt = &doc.Field("candidates").Items[o.candidate], strict.Index("candidates", o.candidate)
	case o.variant >= 0:
		own, ownAt = &written.Field("variants").Items[o.variant], strict.Index(at+".variants", o.variant)
	}
	switch first, _, _ := strings.Cut(strings.TrimPrefix(field, "match."), "."); {
	case field == "match.percent" && o.variant >= 0:
		return ownAt + ".weight"
	case (field == "match.percent" || field == "match.until") && own.Field(first) != nil:
		return ownAt + "." + first
	case first == "limit" && o.candidate >= 0:
		return ownAt + "." + field
	}
	first, _, _ := strings.Cut(field, ".")
	first, _, _ = strings.Cut(first, "[")
	if own.Field(first) != nil {
		at = ownAt
	}
	return at + "." + field
}

// inLimits returns a field with the index in limits, if the rule has these.
func (o *origin) inLimits(field string) string {
	start := 0
	if strings.HasPrefix(field, "overrides[") {
		start = strings.IndexByte(field, '.') + 1
	} else if o.candidate >= 0 {
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
