package descriptor

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// reader reads one file.
type reader struct {
	*builder
	file   string
	domain string
}

func (r *reader) fail(line int, path, reason string) {
	r.errs.Add(strict.Error{File: r.file, Pos: strict.Pos{Line: line}, Path: path, Reason: reason})
}

func (r *reader) warn(line int, path, reason string) {
	r.config.warnings.Add(strict.Error{File: r.file, Pos: strict.Pos{Line: line}, Path: path, Reason: reason})
}

// maxDepth is how many levels of descriptors, or of metadata, there may be. The library bounds
// what aliases add to a file.
const maxDepth = 32

func (r *reader) descriptors(parent *Level, items descriptors, path string, depth int) {
	for i := range items {
		d, below := &items[i], strict.Index(path, i)
		if depth > maxDepth {
			r.fail(d.line, below, "is more than "+strconv.Itoa(maxDepth)+" levels deep; write fewer levels")
			return
		}
		r.descriptor(parent, &d.value, d.line, below, depth)
	}
}

// descriptor reads one descriptor and what is below it.
func (r *reader) descriptor(parent *Level, d *descriptor, line int, path string, depth int) {
	n := &Level{
		File: r.file, Line: line,
		Key: d.Key, Value: d.Value, Shared: d.ShareThreshold, valueToMetric: d.ValueToMetric,
	}
	r.place(parent, n, path)
	if d.RateLimit.line == 0 {
		r.warnRuleless(d, line, path)
	} else {
		n.Rule = r.rule(n, d, path)
		r.config.rules = append(r.config.rules, n.Rule)
	}
	r.descriptors(n, d.Descriptors, path+".descriptors", depth+1)
}

// place makes n a child of its parent.
func (r *reader) place(parent, n *Level, path string) {
	n.Wildcard = strings.Contains(n.Value, "*")
	if strings.Contains(n.Key, "*") {
		r.warn(n.Line, path+".key", "has a *, which is an ordinary character in a key; wildcards are for values")
	}
	if n.Shared && !n.Wildcard {
		r.fail(n.Line, path+".share_threshold", "is only for a value with a wildcard; write a * in the value or leave it out")
	}
	n.way = append(parent.way[:len(parent.way):len(parent.way)], n)
	n.Path = string(appendLevel([]byte(parent.Path), n.Key, n.Value))
	if n.Key == "" {
		r.fail(n.Line, path+".key", "is missing or empty; write a text: it is compared with the keys of a request's entries")
		return
	}
	if present := parent.attach(n); present != nil {
		what := "key " + strict.Quote(n.Key)
		if n.Value != "" {
			what += " and value " + strict.Quote(n.Value)
		} else {
			what += " and no value"
		}
		r.fail(n.Line, path, "has the "+what+", like the descriptor at "+present.File+":"+strconv.Itoa(present.Line)+" beside it; remove one")
	}
}

// warnRuleless warns of what does nothing in a descriptor without a rate_limit.
func (r *reader) warnRuleless(d *descriptor, line int, path string) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"shadow_mode", d.ShadowMode}, {"quota_mode", d.QuotaMode}, {"detailed_metric", d.DetailedMetric}, {"metadata", d.Metadata.line > 0},
	} {
		if f.given {
			r.warn(line, path+"."+f.name, "has no effect: this descriptor has no rate_limit, and those below it do not inherit it")
		}
	}
}

// rule reads the rate_limit of a descriptor and the flags beside it.
func (r *reader) rule(n *Level, d *descriptor, path string) *Rule {
	rule := &Rule{
		Path: n.Path, Domain: r.domain, File: n.File, Line: n.Line, levels: n.way,
		Shadow: d.ShadowMode, Quota: d.QuotaMode, DetailedMetric: d.DetailedMetric,
		Name: d.RateLimit.value.Name, Unlimited: d.RateLimit.value.Unlimited,
	}
	if fields := d.Metadata.value; len(fields) > 0 {
		rule.Metadata = fields
	}
	for name, value := range rule.Metadata {
		var ok bool
		if rule.Metadata[name], ok = metadata(value, 2); !ok {
			r.fail(d.Metadata.line, path+".metadata", "has more than "+strconv.Itoa(maxDepth)+" levels, a number that is not finite, or bytes that are not UTF-8")
			break
		}
	}
	for _, l := range n.way {
		rule.ValueToMetric = rule.ValueToMetric || l.valueToMetric
	}
	r.replaces(rule, d.RateLimit.value.Replaces, path+".rate_limit.replaces")
	r.bound(rule, &d.RateLimit, path+".rate_limit")
	return rule
}

// bound sets the numbers of a rule, unless it is unlimited.
func (r *reader) bound(rule *Rule, from *at[rateLimit], path string) {
	name, count := from.value.Unit, from.value.RequestsPerUnit
	unit, known := parseUnit(name)
	switch {
	case rule.Unlimited && name != "":
		r.fail(from.line, path+".unit", "is given together with unlimited: true; remove one of them")
	case rule.Unlimited && count != nil:
		r.warn(from.line, path+".requests_per_unit", "has no effect together with unlimited: true")
	case rule.Unlimited:
	case !known:
		r.fail(from.line, path+".unit", "is "+strict.Quote(name)+"; write "+unitNames+", or unlimited: true")
	case count == nil:
		r.warn(from.line, path, "has no requests_per_unit, which counts as 0: everything is denied; write the 0 if that is meant")
		count = new(uint32)
		fallthrough
	default:
		l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: int64(*count), Period: unit.Period()})
		if err != nil {
			r.fail(from.line, path, err.Error())
		}
		rule.RequestsPerUnit, rule.Unit, rule.Limit = *count, unit, l
	}
}

// replaces reads the names that a rule replaces.
func (r *reader) replaces(rule *Rule, items replacements, path string) {
	for i, item := range items {
		name, below := item.value.Name, strict.Index(path, i)+".name"
		switch name {
		case "":
			r.fail(max(item.line, rule.Line), below, "is missing or empty; write the name of the rate_limit that is replaced")
		case rule.Name:
			r.fail(item.line, below, "is "+strict.Quote(name)+", the name of this rate_limit itself; name another one")
		}
		rule.Replaces = append(rule.Replaces, name)
	}
}
