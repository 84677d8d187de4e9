package strict

import (
	"strconv"
	"strings"
)

// Value is a place in a document that is being read: a node, its path, and where
// mistakes go. A value that is absent reads as absent all the way down and reports
// nothing; [Value.Require] reports it.
//
// A Value is for one goroutine.
type Value struct {
	node *Node
	path string
	errs *Errors
	// at is where the field's name stands, for mistakes about the field as a whole.
	at Pos
}

// Root returns the value of a whole document. Mistakes are appended to errs.
func Root(n *Node, errs *Errors) Value { return Value{node: n, errs: errs, at: n.Pos} }

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
func (v Value) Path() string { return v.path }

// Fail reports a mistake in the value.
func (v Value) Fail(reason string) {
	pos := v.at
	if v.node != nil && v.node.Kind != Object && v.node.Kind != List {
		pos = v.node.Pos
	}
	*v.errs = append(*v.errs, Error{Pos: pos, Path: v.path, Reason: reason})
}

// Ok reports whether no mistake was found in the value or below it so far.
func (v Value) Ok() bool { return !v.errs.Below(v.path) }

// FailAt reports a mistake at a path below the value, or as near to it as the
// document goes.
func (v Value) FailAt(path, reason string) {
	*v.errs = append(*v.errs, Error{Pos: v.Find(path), Path: join(v.path, path), Reason: reason})
}

// Touched reports whether a mistake was found at a path below the value, or below
// or above that.
func (v Value) Touched(path string) bool { return v.errs.Touch(join(v.path, path)) }

// Find returns the position of a path below the value, see [Node.Find].
func (v Value) Find(path string) Pos {
	if v.node == nil {
		return v.at
	}
	return v.node.Find(path)
}

func join(path, below string) string {
	if path == "" || below == "" || below[0] == '[' {
		return path + below
	}
	return path + "." + below
}

// Require reports a mistake if the value is absent; want says what to write.
func (v Value) Require(want string) bool {
	if v.node == nil {
		v.Fail("is missing; write " + want)
	}
	return v.node != nil
}

// Is reports whether the value is of kind k. If it is present and of another kind
// that is a mistake; want says what to write instead.
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

// describe says what a value of the wrong kind is, and how to make a string of a
// scalar that was not meant to be a number.
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

// String reads a string. want says what the string is, such as "a name".
func (v Value) String(want string) (string, bool) {
	if v.node != nil && (v.node.Kind == Int || v.node.Kind == Number || v.node.Kind == Bool) {
		v.Fail(v.node.describe() + "; write " + want + " in quotes, such as " + Quote(v.node.Text))
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
func (v Value) Enum(names ...string) (int, bool) {
	s, ok := v.String(choice(names))
	if !ok {
		return 0, false
	}
	for i, name := range names {
		if s == name {
			return i, true
		}
	}
	reason := Quote(s) + " is unknown; write " + choice(names)
	if near := Nearest(s, names); near != "" {
		reason += " (did you mean " + near + "?)"
	}
	v.Fail(reason)
	return 0, false
}

// choice renders "a", "a or b", "a, b or c".
func choice(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// List returns the items of a list of at most most items. want says what to write.
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
		n := &v.node.Items[i]
		items[i] = Value{node: n, path: Index(v.path, i), errs: v.errs, at: n.Pos}
	}
	return items
}

// Object checks that the value is an object that has no other fields than known,
// and reports each that is unknown. The value can be used even if that fails.
func (v Value) Object(known ...string) bool {
	if !v.Is(Object, "a mapping with "+strings.Join(known, ", ")) {
		return false
	}
	for _, name := range v.Names() {
		if !contains(known, name) {
			v.Unknown(name, known)
		}
	}
	return true
}

// Unknown reports that the object has a field that is not one of known.
func (v Value) Unknown(name string, known []string) {
	reason := "unknown field"
	if near := Nearest(name, known); near != "" {
		reason += " (did you mean " + near + "?)"
	}
	v.FailName(name, reason+"; write "+choice(known))
}

// FailName reports a mistake in a field of the object as a whole, at its name.
func (v Value) FailName(name, reason string) {
	*v.errs = append(*v.errs, Error{Pos: v.Field(name).at, Path: Join(v.path, name), Reason: reason})
}

// Field returns a field of an object; absent if v is not an object or has no such
// field.
func (v Value) Field(name string) Value {
	field := Value{path: Join(v.path, name), errs: v.errs, at: v.at}
	if v.node == nil || v.node.Kind != Object {
		return field
	}
	for i := range v.node.Fields {
		if f := &v.node.Fields[i]; f.Name == name {
			field.node, field.at = &f.Value, f.Pos
		}
	}
	return field
}

// Names returns the names of all fields of an object in document order, for
// objects whose names are data.
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

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
