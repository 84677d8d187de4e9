// Package docs reads the documents of the repository and finds in them what can be
// held against the programs: commands, flags, variables, metrics, files, links, targets
// of make, and examples.
package docs

import (
	"regexp"
	"slices"
	"strings"
)

// Document is a Markdown file in parts. Lines count from 1.
type Document struct {
	Path     string   // relative to the root of the repository
	Headings []string // as anchors
	Blocks   []Block
	Spans    []Span
	Links    []Span // their targets

	header []string // titles of the table that is being read
}

// Block is an example: a fenced block, also in a list, or an indented one whose language is empty.
type Block struct {
	Line  int
	Lang  string
	Lines []string
}

// Span is a piece of a line: what stands between backticks, or a link's target.
type Span struct {
	Line int
	Text string
	Path bool // in a column of a table that names files or directories
}

var (
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// pathColumns are the titles of columns whose code spans are files or directories.
var pathColumns = []string{"file", "package", "tests"}

// Parse reads a document. Spans that go over the end of a line are not found.
func Parse(path, text string) *Document {
	d := &Document{Path: path}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "```"):
			indent, lang, _ := strings.Cut(line, "```")
			b := Block{Line: i + 2, Lang: strings.TrimSpace(lang)}
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
				b.Lines = append(b.Lines, strings.TrimPrefix(lines[i], indent))
			}
			d.Blocks = append(d.Blocks, b)
		case strings.HasPrefix(line, "    ") && (i == 0 || strings.TrimSpace(lines[i-1]) == ""):
			b := Block{Line: i + 1}
			for ; i < len(lines) && strings.HasPrefix(lines[i], "    "); i++ {
				b.Lines = append(b.Lines, lines[i][4:])
			}
			i--
			d.Blocks = append(d.Blocks, b)
		default:
			d.prose(i+1, line)
		}
	}
	return d
}

func (d *Document) prose(n int, line string) {
	if level := strings.TrimLeft(line, "#"); len(level) < len(line) && strings.HasPrefix(level, " ") {
		d.Headings = append(d.Headings, anchor(level))
	}
	cells, isTable := strings.CutPrefix(line, "| ")
	if !isTable {
		d.header = nil
		d.spans(n, line, false)
		return
	}
	row, first := strings.Split(cells, " |"), d.header == nil
	for i, cell := range row {
		if first {
			d.header = append(d.header, strings.TrimSpace(cell))
		}
		d.spans(n, cell, !first && i < len(d.header) && slices.Contains(pathColumns, d.header[i]))
	}
}

// spans notes what stands between backticks and where links lead.
func (d *Document) spans(n int, text string, path bool) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		d.Spans = append(d.Spans, Span{Line: n, Text: m[1], Path: path})
	}
	for _, m := range linkTarget.FindAllStringSubmatch(text, -1) {
		d.Links = append(d.Links, Span{Line: n, Text: m[1]})
	}
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	return strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

// Commands are the lines of a block with continued ones joined.
func (b *Block) Commands() []Span {
	var all []Span
	joined, begin := "", 0
	for i, line := range b.Lines {
		if joined == "" {
			begin = b.Line + i
		}
		text, more := strings.CutSuffix(line, `\`)
		if joined += text; more {
			continue
		}
		if strings.TrimSpace(joined) != "" {
			all = append(all, Span{Line: begin, Text: strings.TrimSpace(joined)})
		}
		joined = ""
	}
	return all
}
