package strict

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error is one mistake in a document, or a warning about it.
type Error struct {
	File   string // empty where there is none, or only one
	Pos    Pos
	Path   string // such as rules[2].limit.burst; empty for the document itself
	Reason string // what is wrong, what is allowed, what to write instead
}

// Error returns "file:line:column: path: reason", without the parts that are unknown.
func (e *Error) Error() string {
	var text string
	for _, part := range [...]string{e.File, number(e.Pos.Line), number(e.Pos.Column)} {
		if part != "" {
			text += part + ":"
		}
	}
	if text != "" {
		text += " "
	}
	if e.Path != "" {
		text += e.Path + ": "
	}
	return text + e.Reason
}

// number returns n in decimal, "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Errors are all mistakes of a document, or of several files. A nil Errors is not an
// error: return [Errors.Err] from functions whose result is an error.
type Errors []Error

// Error returns one line for each mistake.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i := range es {
		lines[i] = es[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns es as an error, nil if there is no mistake.
func (es Errors) Err() error {
	if len(es) == 0 {
		return nil
	}
	return es
}

// maxErrors is how many mistakes are reported.
const maxErrors = 100

// Add appends a mistake, or after maxErrors a last entry, the remark that there are more.
func (es *Errors) Add(e Error) {
	switch {
	case len(*es) < maxErrors:
		*es = append(*es, e)
	case !es.full():
		*es = append(*es, Error{File: e.File, Reason: "there are more like these 100"})
	}
}

// SortFrom sorts the mistakes from index from on by their position, those without a
// position first. The remark about more mistakes stays last.
func (es Errors) SortFrom(from int) {
	end := min(len(es), maxErrors)
	slices.SortStableFunc(es[min(from, end):end], func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

func (es *Errors) full() bool { return len(*es) > maxErrors }

// touch reports whether a mistake was found at path, below it or above it.
func (es Errors) touch(path string) bool {
	return slices.ContainsFunc(es, func(e Error) bool { return within(e.Path, path) || within(path, e.Path) })
}

// within reports whether path is at or below above.
func within(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (above == "" || atStepEnd(rest))
}

// maxQuoted is how much of a value an error message repeats, in bytes.
const maxQuoted = 60

// Quote quotes a value for an error message and cuts a long one.
func Quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}

// Nearest returns the name that is most likely meant by got, or "" if no name is near: at
// most a third of its letters differ.
func Nearest(got string, names []string) string {
	best, bestDistance := "", len(got)/3+1
	if len(got) > maxQuoted {
		return ""
	}
	for _, name := range names {
		if d := distance(got, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with a
// neighbour to get from a to b (optimal string alignment), ignoring case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
