package descriptor

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// place names a kind of mapping in a file and the fields that it may have.
type place struct {
	name   string
	fields []string
}

var (
	inFile       = &place{"the file", []string{"domain", "descriptors"}}
	inDescriptor = &place{"a descriptor", []string{
		"key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric",
		"value_to_metric", "share_threshold", "metadata", "descriptors",
	}}
	inRateLimit = &place{"rate_limit", []string{"unit", "requests_per_unit", "unlimited", "name", "replaces"}}
	inReplaces  = &place{"an entry of replaces", []string{"name"}}

	places = []*place{inFile, inDescriptor, inRateLimit, inReplaces}
)

// home is a place in which a field is known, nil if it is known nowhere.
func home(name string) *place {
	for _, p := range places {
		if slices.Contains(p.fields, name) {
			return p
		}
	}
	return nil
}

// required reads a text that must not be empty. why completes the message.
func (r *reader) required(at *yamlNode, fields map[string]field, path, name, why string) string {
	f, ok := fields[name]
	below := strict.Join(path, name)
	if !ok {
		r.fail(posOf(at), path, "has no "+name+"; write "+name+": and a text: "+why)
		return ""
	}
	before := len(r.errs)
	text := r.text(f, below)
	if text == "" && len(r.errs) == before {
		r.fail(f.pos, below, "is empty; write a text: "+why)
	}
	return text
}

// needRule are the fields of a descriptor that do nothing without its rate_limit.
var needRule = []string{"shadow_mode", "quota_mode", "detailed_metric", "metadata"}

// rule reads the rate_limit of a descriptor and the flags beside it; nil if there
// is none.
func (r *reader) rule(n *Level, fields map[string]field, path string) *Rule {
	rule := &Rule{
		Path: n.Path, Domain: r.domain, File: n.File, Line: n.Line,
		Shadow:         r.boolean(fields["shadow_mode"], path+".shadow_mode"),
		Quota:          r.boolean(fields["quota_mode"], path+".quota_mode"),
		DetailedMetric: r.boolean(fields["detailed_metric"], path+".detailed_metric"),
		Metadata:       r.metadata(fields["metadata"], path+".metadata"),
	}
	f, ok := fields["rate_limit"]
	if !ok || isNull(f.value) {
		r.warnRuleless(f, ok, fields, path)
		return nil
	}
	rule.levels = n.way
	for _, l := range n.way {
		rule.ValueToMetric = rule.ValueToMetric || l.valueToMetric
	}
	r.rateLimit(rule, f, path+".rate_limit")
	return rule
}

// warnRuleless warns of what does nothing in a descriptor without a rate_limit.
func (r *reader) warnRuleless(f field, present bool, fields map[string]field, path string) {
	if present {
		r.warn(f.pos, path+".rate_limit", "is empty, which limits nothing; leave it out if that is meant")
	}
	for _, name := range needRule {
		if other, ok := fields[name]; ok {
			r.warn(other.pos, path+"."+name, "has no effect: this descriptor has no rate_limit, and those below it do not inherit it")
		}
	}
}

func (r *reader) rateLimit(rule *Rule, f field, path string) {
	fields, ok := r.fields(f.value, path, inRateLimit)
	if !ok {
		return
	}
	rule.Name = r.text(fields["name"], path+".name")
	rule.Replaces = r.replaces(fields["replaces"], path+".replaces", rule.Name)
	count := r.count(fields["requests_per_unit"], path+".requests_per_unit")
	mistakes := len(r.errs)
	rule.Unlimited = r.boolean(fields["unlimited"], path+".unlimited")
	unit := r.text(fields["unit"], path+".unit")
	switch {
	case len(r.errs) > mistakes: // what would follow from them only confuses
	case rule.Unlimited:
		r.checkUnlimited(fields, path, unit)
	default:
		r.bound(rule, fields, f.pos, path, count, unit)
	}
}

// bound sets the numbers of a rule that is not unlimited.
func (r *reader) bound(rule *Rule, fields map[string]field, at strict.Pos, path string, count uint32, name string) {
	f, present := fields["unit"]
	unit, ok := parseUnit(name)
	switch {
	case !present:
		r.fail(at, path, "has no unit; write unit: "+unitNames+", or unlimited: true")
	case !ok:
		r.fail(f.pos, path+".unit", "is "+strict.Quote(name)+"; write "+unitNames)
	default:
		l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: int64(count), Period: unit.Period()})
		if err != nil {
			r.fail(at, path, err.Error())
		}
		rule.RequestsPerUnit, rule.Unit, rule.Limit = count, unit, l
	}
	if _, ok := fields["requests_per_unit"]; !ok {
		r.warn(at, path, "has no requests_per_unit, which counts as 0: everything is denied; write the 0 if that is meant")
	}
}

func (r *reader) checkUnlimited(fields map[string]field, path, unit string) {
	if unit != "" {
		r.fail(fields["unit"].pos, path+".unit", "is given together with unlimited: true; remove one of them")
	}
	if f, ok := fields["requests_per_unit"]; ok {
		r.warn(f.pos, path+".requests_per_unit", "has no effect together with unlimited: true")
	}
}

// replaces reads the names that a rule of the given name replaces.
func (r *reader) replaces(f field, path, own string) []string {
	var names []string
	for i, item := range r.list(f, path) {
		at := strict.Index(path, i)
		fields, ok := r.fields(item, at, inReplaces)
		if !ok {
			continue
		}
		name := r.required(item, fields, at, "name", "the name of the rate_limit that is replaced")
		if name != "" && name == own {
			r.fail(fields["name"].pos, at+".name", "is "+strict.Quote(name)+", the name of this rate_limit itself; name another one")
		}
		names = append(names, name)
	}
	return names
}
