package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/fatih/color"
)

// Output has the flag of commands that print tables.
type Output struct {
	Output string `short:"o" enum:"text,wide,json" default:"text" help:"How to print: as text, as wide text with more columns, or as json for programs."`
}

// Format has the flag of commands that print no tables.
type Format struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"How to print: as text, or as json for programs."`
}

// Print prints an answer as JSON, or as this text.
func (f Format) Print(out io.Writer, answer any, text string) (err error) {
	if f.Output == "json" {
		text, err = encode(answer, "  ")
	}
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}

// Print prints an answer as JSON, or a list of items as a table.
//
// A column without a text in any row is left out. Columns are parted by blanks. Each is the path of a field of an item, such as version.revision, or several parted by |, of
// which the first counts that has something; behind = stands the title where it is another. Columns that begin with +
// are in wide tables alone.
func (o *Output) Print(out io.Writer, answer, items any, columns string) error {
	if o.Output == "json" {
		return Format(*o).Print(out, answer, "")
	}
	text, err := json.Marshal(items)
	if err != nil {
		return err
	}
	var rows []any
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := make([]string, 1+len(rows))
	for _, c := range o.columns(columns) {
		cells := make([]string, len(rows))
		for i := range rows {
			cells[i] = c.of(rows[i])
		}
		if len(rows) > 0 && strings.Join(cells, "") == "" {
			continue
		}
		lines[0] += paint(bold, c.title) + "\t"
		for i, text := range cells {
			lines[1+i] += paint(cmp.Or(colours[c.title], colours[text], plain), text) + "\t"
		}
	}
	if len(rows) == 0 {
		lines = append(lines, "(none)")
	}
	for _, line := range lines {
		fmt.Fprintln(table, strings.TrimSuffix(line, "\t"))
	}
	return table.Flush()
}

// Codes of colours. They are of one length, so that they leave the columns of a table as they are.
const plain, bold, red, green, yellow = "\x1b[00m", "\x1b[01m", "\x1b[31m", "\x1b[32m", "\x1b[33m"

// colours are those of columns, by their titles, and of words.
var colours = map[string]string{"problem": red, "last error": red, "reason": yellow, "rejected": red, "fallback": red, "would be rejected": yellow, "admitted": green}

// paint colours a text, if standard output is a terminal and NO_COLOR is not set.
func paint(code, text string) string {
	if color.NoColor {
		return text
	}
	return code + text + plain
}

// column is one of a table.
type column struct {
	title string
	paths []string
}

// columns are those that are shown.
func (o *Output) columns(text string) (all []column) {
	for _, one := range strings.Fields(text) {
		one, wide := strings.CutPrefix(one, "+")
		paths, title, named := strings.Cut(one, "=")
		if !named {
			title = paths
		}
		if !wide || o.Output == "wide" {
			all = append(all, column{strings.ReplaceAll(title, "_", " "), strings.Split(paths, "|")})
		}
	}
	return all
}

// of is the cell of an item.
func (c *column) of(item any) (text string) {
	for _, path := range c.paths {
		if text = safe(cell(path, at(item, path))); text != "" && text != "0" {
			break
		}
	}
	return text
}

// at is the field of a value that has a path; of a list those of its items.
func at(value any, path string) any {
	name, rest, more := strings.Cut(path, ".")
	switch v := value.(type) {
	case map[string]any:
		if more {
			return at(v[name], rest)
		}
		return v[name]
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = at(v[i], path)
		}
		return all
	}
	return nil
}

// cell is a value for people. The name of its field has its unit.
func cell(field string, value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if when, err := time.Parse(time.RFC3339, v); err == nil && (field == "when" || field == "until") {
			return when.Local().Format(time.RFC3339)
		}
		switch field {
		case "outcome":
			return strings.ReplaceAll(v, "-", " ")
		case "hint":
			return hints[v]
		}
		return v
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case float64:
		switch {
		case strings.HasSuffix(field, "_ms"):
			return ago(uint64(max(v, 0)))
		case strings.HasSuffix(field, "_per_mille"):
			return fmt.Sprint(v/10, "%")
		case field == "used":
			return fmt.Sprintf("%.0f%%", v*100)
		case strings.HasSuffix(field, "per_second") || field == "over":
			return strconv.FormatFloat(v, 'f', 1, 64)
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var texts []string
		for _, one := range v {
			texts = append(texts, cell(field, one))
		}
		return strings.Join(texts, " ")
	}
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}

// ago is a time in milliseconds, for people.
func ago(ms uint64) string {
	return (time.Duration(min(ms, 1<<40)) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// safe is a text in one line, in which what a terminal does not print is escaped: whoever sends requests chooses keys.
func safe(text string) string { return Escaped(text, "") }

// Escaped escapes what a terminal does not print, as in a key, but for these runes.
func Escaped(text, but string) string {
	return escaped(text, but, func(r rune) string { return strings.ReplaceAll(fmt.Sprintf(" % x", string(r)), " ", `\x`) })
}

// escaped is a text in which another text stands for what a terminal does not print, but for these runes.
func escaped(text, but string, escape func(r rune) string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || strings.ContainsRune(but, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r))
		}
	}
	return b.String()
}

// encode is a value as JSON.
func encode(value any, indent string) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return escaped(text.String(), "\n", func(r rune) (out string) {
		for _, unit := range utf16.AppendRune(nil, r) {
			out += fmt.Sprintf(`\u%04x`, unit)
		}
		return out
	}), err
}
