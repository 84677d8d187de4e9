package descriptor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxErrors is how many mistakes of a configuration are reported, and how many
// warnings.
const maxErrors = 100

// Error is one mistake in a configuration, or something in it to be warned of.
type Error struct {
	File         string
	Line, Column int    // from 1; 0: not known
	Path         string // such as descriptors[2].rate_limit.unit; empty for the file itself
	Reason       string // what is wrong, what is allowed, what to write instead
}

// Error returns "file:line:column: path: reason", without the parts that are not
// known.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File + ":")
	if e.Line > 0 {
		b.WriteString(strconv.Itoa(e.Line) + ":")
		if e.Column > 0 {
			b.WriteString(strconv.Itoa(e.Column) + ":")
		}
	}
	b.WriteByte(' ')
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// Errors are all mistakes of a configuration, file by file, each from its top.
type Errors []Error

// Error returns one line for each mistake.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i := range es {
		lines[i] = es[i].Error()
	}
	return strings.Join(lines, "\n")
}

// add appends a mistake, or after maxErrors the remark that there are more.
func (es *Errors) add(e Error) {
	switch {
	case len(*es) < maxErrors:
		*es = append(*es, e)
	case len(*es) == maxErrors:
		*es = append(*es, Error{File: e.File, Reason: "there are more like these " + strconv.Itoa(maxErrors)})
	}
}

// sortFrom puts the mistakes of one file, which begin at from, in the order of the
// file, with what has no place first. The remark about more of them stays last.
func (es Errors) sortFrom(from int) {
	end := min(len(es), maxErrors)
	slices.SortStableFunc(es[min(from, end):end], func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
