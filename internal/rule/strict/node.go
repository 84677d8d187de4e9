// Package strict reads small documents strictly.
//
// A document is a tree of [Node] values with their positions, from JSON by [ParseJSON] or from another format by the caller. A
// [Value] checks the tree. An unknown field, a field given twice, and a value of another type or out of its range are an
// [Error] with position and path. Reading goes on after an error, so that all mistakes of a document are reported at once.
//
// The package is part of the Envoy filter and imports neither fmt nor encoding/json nor reflect, because the size of the
// filter is Envoy's start-up time.
package strict

import (
	"strconv"
	"strings"
)

// Kind is the type of a [Node]. The zero value is Null.
type Kind uint8

// The kinds.
const (
	Null   Kind = iota
	Bool        // Text is "true" or "false"
	Int         // Text is decimal: digits, perhaps a minus sign before them
	Number      // any other number; Text is as written
	String      // Text is the decoded string
	List        // Items
	Object      // Fields
	Other       // a kind that JSON does not have; Text describes it
)

var kindNames = [...]string{"null", "a boolean", "a whole number", "a number", "a string", "a list", "a mapping", "of another type"}

// String returns the kind with its article, as error messages use it.
func (k Kind) String() string { return kindNames[k] }

// Pos is a place in a document. Line and Column count from 1;
// 0 means not known.
type Pos struct{ Line, Column int }

// Node is one value of a document. It is not changed once it is built.
type Node struct {
	Kind   Kind
	Pos    Pos
	Text   string
	Items  []Node
	Fields []Field // in document order, names unique
}

// Field is one field of an object.
type Field struct {
	Name  string
	Pos   Pos
	Value Node
}

// Field returns the value of a field, nil if n has no such field.
func (n *Node) Field(name string) *Node {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return &n.Fields[i].Value
		}
	}
	return nil
}

// Find returns the position of what path names below n, or of the innermost
// value on the way there that exists: a missing field is reported where it is
// missing.
func (n *Node) Find(path string) Pos {
	pos := n.Pos
	for path != "" {
		next, nextPos, rest := n.step(path)
		if next == nil {
			return pos
		}
		n, pos, path = next, nextPos, rest
	}
	return pos
}

// At returns what path names below n; nil: it does not exist.
func (n *Node) At(path string) *Node {
	for path != "" && n != nil {
		n, _, path = n.step(path)
	}
	return n
}

// step follows the first step of path. For a field the position is that of its
// name when the value is itself an object or a list, else that of the value.
func (n *Node) step(path string) (*Node, Pos, string) {
	for i := range n.Fields {
		f := &n.Fields[i]
		if rest, ok := strings.CutPrefix(path, fieldStep(f.Name)); ok && atStepEnd(rest) {
			pos := f.Value.Pos
			if f.Value.Kind == Object || f.Value.Kind == List {
				pos = f.Pos
			}
			return &f.Value, pos, strings.TrimPrefix(rest, ".")
		}
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
	if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(n.Items) {
		if rest, ok := strings.CutPrefix(path, indexStep(i)); ok {
			return &n.Items[i], n.Items[i].Pos, strings.TrimPrefix(rest, ".")
		}
	}
	return nil, Pos{}, ""
}

// locate returns the path of a node of the tree below n.
func (n *Node) locate(target *Node) (path string, ok bool) {
	if n == target {
		return "", true
	}
	for i := range n.Fields {
		if below, ok := n.Fields[i].Value.locate(target); ok {
			return join(fieldStep(n.Fields[i].Name), below), true
		}
	}
	for i := range n.Items {
		if below, ok := n.Items[i].locate(target); ok {
			return join(indexStep(i), below), true
		}
	}
	return "", false
}

func atStepEnd(rest string) bool { return rest == "" || rest[0] == '.' || rest[0] == '[' }

// Join appends a field name to a path. A name that would be misread is quoted.
func Join(path, name string) string { return join(path, fieldStep(name)) }

// join appends a path below another one.
func join(path, below string) string {
	if path == "" || below == "" || below[0] == '[' {
		return path + below
	}
	return path + "." + below
}

// Index appends a list index to a path.
//
//go:noinline
func Index(path string, i int) string { return path + indexStep(i) }

func indexStep(i int) string { return "[" + strconv.Itoa(i) + "]" }

func fieldStep(name string) string {
	if name == "" || len(name) > maxQuoted || strings.ContainsFunc(name, func(r rune) bool {
		return r == '.' || r == '[' || r == ']' || r == '"' || r <= ' ' || r > '~'
	}) {
		return "[" + Quote(name) + "]"
	}
	return name
}
