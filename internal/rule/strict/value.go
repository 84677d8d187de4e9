package strict

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Value is a place in a document that is being read. A value that is absent reads
// as absent all the way down and reports nothing; [Value.Require] reports it.
//
// A Value is for one goroutine.
type Value struct {
	doc  *document
	node *Node // nil if absent
	// above and name are the place of an absent value.
	above *Node
	name  string
}

// document is where all values of a document look up their paths, which are only
// needed for mistakes, and leave their mistakes.
type document struct {
	root *Node
	errs *Errors
	bad  []*Node // all values on the way to the first seen mistakes
	seen int
}

func (d *document) add(at Pos, path, reason string) {
	d.errs.Add(Error{Pos: at, Path: path, Reason: reason})
}

// Root returns the value of a whole document. Mistakes are appended to errs, at most 100.
func Root(n *Node, errs *Errors) Value { return Value{doc: &document{root: n, errs: errs}, node: n} }

// Present reports whether the value exists.
func (v Value) Present() bool { return v.node != nil }

// Kind returns the kind of the value, Null if it is absent.
func (v Value) Kind() Kind {
	if v.node == nil {
		return Null
	}
	return v.node.Kind
}

// Node returns the value's node, nil if it is absent.
func (v Value) Node() *Node { return v.node }

// Path returns the value's path.
func (v Value) Path() string {
	if v.node == nil {
		path, _ := v.doc.root.locate(v.above)
		return Join(path, v.name)
	}
	path, _ := v.doc.root.locate(v.node)
	return path
}

// Fail reports a mistake in the value. Inlined, it and others here that are called from many places would make the filter
// 60 kB larger.
//
//go:noinline
func (v Value) Fail(reason string) { v.FailAt("", reason) }

// FailAt reports a mistake at a path below the value, or at the nearest place above that
// exists.
func (v Value) FailAt(path, reason string) {
	if v.doc.errs.full() {
		return // spares the search for the path, too
	}
	path = join(v.Path(), path)
	v.doc.add(v.doc.root.Find(path), path, reason)
}

// FailName reports a mistake in a field of the object as a whole, at its name.
func (v Value) FailName(name, reason string) {
	if v.node == nil || v.doc.errs.full() {
		v.FailAt(Join("", name), reason)
		return
	}
	pos := v.node.Pos
	for i := range v.node.Fields {
		if f := &v.node.Fields[i]; f.Name == name {
			pos = f.Pos
		}
	}
	v.doc.add(pos, Join(v.Path(), name), reason)
}

// Ok reports whether no mistake was found in the value or below it so far, for an absent one in what is
// around it; false when there are more mistakes than are kept. A document may ask it of each of 100,000
// values, so it does without their paths.
func (v Value) Ok() bool {
	for d := v.doc; d.seen < len(*d.errs); d.seen++ {
		for n, path := d.root, (*d.errs)[d.seen].Path; n != nil; n, _, path = n.step(path) {
			d.bad = append(d.bad, n)
		}
	}
	return !v.doc.errs.full() && !slices.Contains(v.doc.bad, cmp.Or(v.node, v.above))
}

// Touched reports whether a mistake was found at a path below the value, or below
// or above that: then the value is not what its author meant.
func (v Value) Touched(path string) bool {
	return len(*v.doc.errs) > 0 && v.doc.errs.touch(join(v.Path(), path))
}

// Find returns the position of a path below the value, see [Node.Find].
func (v Value) Find(path string) Pos { return v.doc.root.Find(join(v.Path(), path)) }

// Require reports a mistake if the value is absent; want is what to write.
//
//go:noinline
func (v Value) Require(want string) bool {
	if v.node == nil {
		v.Fail("is missing; write " + want)
	}
	return v.node != nil
}

// Is reports whether the value is of kind k. If it is present and of another kind
// that is a mistake; want is what to write instead.
func (v Value) Is(k Kind, want string) bool {
	if v.node == nil {
		return false
	}
	if v.node.Kind == k {
		return true
	}
	v.Fail(v.node.describe() + "; write " + want)
	return false
}

// describe describes a value of the wrong kind for messages.
func (n *Node) describe() string {
	switch n.Kind {
	case Null:
		return "has no value"
	case Object, List:
		return "is " + n.Kind.String()
	case Other:
		return "is " + n.Text
	}
	return n.shown() + " is " + n.Kind.String()
}

func (n *Node) shown() string {
	if n.Kind == String || len(n.Text) > maxQuoted {
		return Quote(n.Text)
	}
	return n.Text
}

// String reads a string that may be any text. want describes it, such as "a name".
func (v Value) String(want string) (string, bool) {
	if v.node != nil && (v.node.Kind == Int || v.node.Kind == Number || v.node.Kind == Bool) {
		v.Fail(v.node.describe() + "; write it in quotes: " + Quote(v.node.Text))
		return "", false
	}
	if !v.Is(String, want) {
		return "", false
	}
	return v.node.Text, true
}

// Int reads a whole number from low to high.
func (v Value) Int(low, high int64) (int64, bool) {
	want := "a whole number from " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10)
	if !v.Is(Int, want) {
		return 0, false
	}
	n, err := strconv.ParseInt(v.node.Text, 10, 64)
	if err != nil || n < low || n > high {
		v.Fail(v.node.shown() + " is out of range; write " + want)
		return 0, false
	}
	return n, true
}

// Bool reads a boolean.
func (v Value) Bool() (value, ok bool) {
	if !v.Is(Bool, "true or false") {
		return false, false
	}
	return v.node.Text == "true", true
}

// Enum reads one of names and returns its index.
func (v Value) Enum(names ...string) (int, bool) { return v.OneOf("", names) }

// OneOf is Enum of names that are data; other is what else to do about an unknown one, such as "add it to pops, or ".
func (v Value) OneOf(other string, names []string) (int, bool) {
	if !v.Is(String, choice(names)) {
		return 0, false
	}
	s := v.node.Text
	if i := slices.Index(names, s); i >= 0 {
		return i, true
	}
	reason := Quote(s) + " is unknown; " + other + "write " + choice(names)
	if near := Nearest(s, names); near != "" {
		reason += " (did you mean " + near + "?)"
	}
	v.Fail(reason)
	return 0, false
}

// choice renders "a", "a or b", "a, b or c", and of very many names the first.
func choice(names []string) string {
	const most = 50
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " ..."
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// List returns the items of a list of at most most items. want is what to write.
func (v Value) List(most int, want string) []Value {
	if !v.Is(List, want) {
		return nil
	}
	if len(v.node.Items) > most {
		v.Fail("has " + strconv.Itoa(len(v.node.Items)) + " items; write at most " + strconv.Itoa(most))
		return nil
	}
	items := make([]Value, len(v.node.Items))
	for i := range items {
		items[i] = Value{doc: v.doc, node: &v.node.Items[i]}
	}
	return items
}

// Object checks that the value is an object that has no other fields than known,
// and reports each that is unknown. The value can be used even if that fails.
func (v Value) Object(known ...string) bool {
	if v.Kind() != Object {
		return v.Is(Object, "a mapping with "+some(known))
	}
	for i := range v.node.Fields {
		if name := v.node.Fields[i].Name; !slices.Contains(known, name) {
			v.Unknown(name, known)
		}
	}
	return true
}

// Unknown reports that the object has a field that is not one of known.
func (v Value) Unknown(name string, known []string) {
	if v.doc.errs.full() {
		return
	}
	if near := Nearest(name, known); near != "" {
		v.FailName(name, "unknown field; did you mean "+near+"?")
		return
	}
	v.FailName(name, "unknown field; write "+choice(known))
}

// some renders the first names of a list.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", ..."
}

// Field returns a field of an object; absent if v is not an object or has no such
// field.
//
//go:noinline
func (v Value) Field(name string) Value {
	if v.node == nil {
		return Value{doc: v.doc, above: v.above, name: v.name}
	}
	return Value{doc: v.doc, node: v.node.Field(name), above: v.node, name: name}
}

// Names returns the names of all fields of an object in document order, for
// objects whose names are data.
//
//go:noinline
func (v Value) Names() []string {
	if v.node == nil {
		return nil
	}
	names := make([]string, len(v.node.Fields))
	for i := range v.node.Fields {
		names[i] = v.node.Fields[i].Name
	}
	return names
}
