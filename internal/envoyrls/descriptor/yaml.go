package descriptor

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"go.yaml.in/yaml/v3"
)

type yamlNode = yaml.Node

func posOf(n *yamlNode) strict.Pos { return strict.Pos{Line: n.Line, Column: n.Column} }

// field is a field of a mapping. The zero value is one that is absent.
type field struct {
	pos   strict.Pos // of the name
	value *yamlNode
}

// reader reads one file. YAML is taken as envoyproxy/ratelimit takes it (YAML 1.1
// with anchors, aliases and merges), except that null and what is absent are the
// same everywhere.
type reader struct {
	*builder
	file   string
	domain string // empty until it was read
	left   int    // parts that the file may still have
}

func (r *reader) fail(at strict.Pos, path, reason string) {
	r.errs.Add(strict.Error{File: r.file, Pos: at, Path: path, Reason: reason})
}

func (r *reader) warn(at strict.Pos, path, reason string) {
	r.config.warnings.Add(strict.Error{File: r.file, Pos: at, Path: path, Reason: reason})
}

// take counts a part of the file against its allowance.
func (r *reader) take(n *yamlNode, path string) bool {
	if r.left--; r.left == -1 {
		r.fail(posOf(n), path, "has more than "+strconv.Itoa(maxParts)+" descriptors and values of metadata, those of aliases included; write several files")
	}
	return r.left >= 0
}

// parse reads the first document of a file.
func (r *reader) parse(data []byte) *yamlNode {
	doc, second, err := rulefile.Documents(data)
	switch {
	case doc != nil:
		if second != nil {
			r.warn(posOf(second), "", "a second document begins, which is not read; write one document per file")
		}
		return doc.Content[0]
	case err != nil:
		e := rulefile.SyntaxError(err, "")
		r.fail(e.Pos, e.Path, e.Reason)
	default:
		r.fail(strict.Pos{}, "", "is empty; write domain: and descriptors:, or remove the file")
	}
	return nil
}

// resolve follows an alias.
func resolve(n *yamlNode) *yamlNode {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yamlNode) bool {
	n = resolve(n)
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// describe describes a node for messages: "is ..., write ...".
func describe(n *yamlNode) string {
	switch n = resolve(n); {
	case isNull(n):
		return "empty"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	default:
		return strict.Quote(n.Value)
	}
}

// describeType is describe with the type of a scalar.
func describeType(n *yamlNode) string {
	if n.Kind == yaml.ScalarNode {
		return describe(n) + " of type " + n.ShortTag()
	}
	return describe(n)
}

// fields reads a mapping that may have the fields of in. Fields of other mappings are
// skipped with a warning, as envoyproxy/ratelimit skips them; others are mistakes.
func (r *reader) fields(n *yamlNode, path string, in *place) (map[string]field, bool) {
	m := resolve(n)
	if m == nil || m.Kind != yaml.MappingNode {
		r.fail(posOf(n), path, "is "+describe(n)+"; write a mapping with "+strings.Join(in.fields, ", "))
		return nil, false
	}
	fields, own := map[string]field{}, map[string]bool{}
	for _, p := range r.pairs(m, path, 0) {
		if !r.known(p.key, path, in) {
			continue
		}
		name := p.key.Value
		if own[name] {
			r.warn(fields[name].pos, strict.Join(path, name), "has no effect: it is given again below, or merged by a << there; remove one")
		}
		fields[name], own[name] = field{posOf(p.key), p.value}, !p.merged
	}
	return fields, true
}

// pair is a field of a mapping, as it stands there or as << merges it.
type pair struct {
	key, value *yamlNode
	merged     bool
}

// pairs are the fields of a mapping in the order in which they count: of two with one name
// the last. As in envoyproxy/ratelimit those of a << stand in its place. depth is how many
// << lead to the mapping.
func (r *reader) pairs(m *yamlNode, path string, depth int) (all []pair) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := resolve(m.Content[i]), m.Content[i+1]
		switch {
		case key.ShortTag() == "!!merge":
			all = append(all, r.merge(value, path, depth+1)...)
		case depth == 0 || r.take(key, path):
			all = append(all, pair{key, value, depth > 0})
		}
	}
	return all
}

// merge are the fields of the value of <<: of a mapping, or of several of which the first
// that has a field counts.
func (r *reader) merge(value *yamlNode, path string, depth int) (all []pair) {
	m := resolve(value)
	switch {
	case !r.take(value, path):
	case depth > maxDepth:
		r.fail(posOf(value), path, "merges more than "+strconv.Itoa(maxDepth)+" levels deep; write the fields themselves")
	case m.Kind == yaml.MappingNode:
		return r.pairs(m, path, depth)
	case m.Kind == yaml.SequenceNode:
		for _, item := range slices.Backward(m.Content) {
			all = append(all, r.merge(item, path, depth+1)...)
		}
	default:
		r.fail(posOf(value), path, "merges "+describe(value)+" with <<; only mappings can be merged")
	}
	return all
}

// known reports whether a place has the field; if not, it reports a mistake or a warning.
func (r *reader) known(key *yamlNode, path string, in *place) bool {
	if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
		r.fail(posOf(key), path, "has a field whose name is not a text ("+describe(key)+"); the fields of "+in.name+" are "+strings.Join(in.fields, ", "))
		return false
	}
	if slices.Contains(in.fields, key.Value) {
		return true
	}
	below := strict.Join(path, key.Value)
	if p := home(key.Value); p != nil {
		r.warn(posOf(key), below, "has no effect here; it is a field of "+p.name)
		return false
	}
	reason := "is unknown; the fields of " + in.name + " are " + strings.Join(in.fields, ", ")
	if near := strict.Nearest(key.Value, in.fields); near != "" {
		reason = "is unknown; do you mean " + near + "?"
	}
	r.fail(posOf(key), below, reason)
	return false
}

// list reads a list; nothing is an empty one.
func (r *reader) list(f field, path string) []*yamlNode {
	n := resolve(f.value)
	switch {
	case isNull(n):
		return nil
	case n.Kind != yaml.SequenceNode:
		r.fail(posOf(f.value), path, "is "+describe(n)+"; write a list, each item with - before it")
		return nil
	}
	return n.Content
}

// text reads a text. Numbers, booleans and dates are taken as they are written;
// nothing is the empty text.
func (r *reader) text(f field, path string) string {
	n := resolve(f.value)
	if isNull(n) {
		return ""
	}
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
			return n.Value
		}
	}
	r.fail(posOf(f.value), path, "is "+describeType(n)+"; write a text")
	return ""
}

// truth reads the words that YAML 1.1 has for true and false, unless in quotes.
func truth(n *yamlNode) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0 {
		return false, false
	}
	switch n.Value {
	case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y":
		return true, true
	case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N":
		return false, true
	}
	return false, false
}

func (r *reader) boolean(f field, path string) bool {
	n := resolve(f.value)
	if isNull(n) {
		return false
	}
	value, ok := truth(n)
	if !ok {
		r.fail(posOf(f.value), path, "is "+describe(n)+"; write true or false, without quotes")
	}
	return value
}

// integer reads a whole number as YAML 1.1 has them: with _ between digits, and
// after 0x, 0b, 0o or 0 in another base.
func integer(n *yamlNode) (string, bool) {
	return strings.ReplaceAll(n.Value, "_", ""), n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int"
}

// count reads requests_per_unit; nothing is 0. Numbers that are written as ones with a
// fraction or an exponent are read as well, such as 1e3 and, as it is no octal one,
// 08; the fraction itself does not count.
func (r *reader) count(f field, path string) uint32 {
	n := resolve(f.value)
	if isNull(n) {
		return 0
	}
	if digits, ok := integer(n); ok {
		value, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), 0, 32)
		if err == nil || digits == "-0" {
			return uint32(value)
		}
	}
	if value, ok := fractional(n); ok {
		if value != math.Trunc(value) {
			r.warn(posOf(f.value), path, "is "+describe(n)+", and its fraction is ignored; write a whole number")
		}
		return uint32(value)
	}
	r.fail(posOf(f.value), path, "is "+describe(n)+"; write a whole number from 0 (denies everything) to "+strconv.FormatUint(math.MaxUint32, 10)+", without quotes")
	return 0
}

// fractional reads a number that is no whole one to YAML but fits in 32 bits.
func fractional(n *yamlNode) (float64, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!float" {
		return 0, false
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	return value, err == nil && value >= 0 && value < 1<<32
}
