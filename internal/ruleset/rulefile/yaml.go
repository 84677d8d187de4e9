package rulefile

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds a file: the compiled form, and the limits of 100,000 keys.
const MaxBytes = 2 * strict.MaxBytes

// maxParts bounds the lines and commas of a file, and so the values that it may have: each takes far more memory than
// its text. The limits of 100,000 keys have a tenth of them for each part of their keys.
const maxParts = 1 << 20

// parse reads a file with one YAML document. YAML without a counterpart in JSON is a
// mistake: rules are sent as JSON, and must mean what a reader expects. nothing is the
// text to write into an empty file.
func parse(data []byte, nothing string, errs *strict.Errors) *strict.Node {
	if len(data) > MaxBytes {
		fail(errs, strict.Pos{}, "", "the file has "+strconv.Itoa(len(data))+" bytes; write at most "+strconv.Itoa(MaxBytes))
		return nil
	}
	if n := bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'\n'}); n > maxParts {
		fail(errs, strict.Pos{}, "", "the file has "+strconv.Itoa(n)+" lines and commas; write at most "+strconv.Itoa(maxParts))
		return nil
	}
	doc, more, err := documents(data)
	switch {
	case err != nil:
		errs.Add(syntaxError(err))
	case doc == nil:
		fail(errs, strict.Pos{}, "", "the file is empty; write "+nothing)
	case more != nil:
		fail(errs, strict.Pos{Line: more.Line, Column: more.Column}, "", "a second document begins; write one document per file")
	}
	if doc == nil {
		return nil
	}
	c := converter{errs: errs}
	root := c.node(doc.Content[0], "", 0)
	return &root
}

// lines hands out a file line by line. Where the YAML library stops to read is where the mistake is: its errors have
// the line in which the block around the mistake begins.
type lines struct {
	rest []byte
	n    int // those handed out
}

func (l *lines) Read(p []byte) (n int, err error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	line := l.rest
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end+1]
	}
	n = copy(p, line)
	l.rest = l.rest[n:]
	if n == len(line) {
		l.n++
	}
	return n, nil
}

var blockError = regexp.MustCompile(`^yaml: (?:line \d+: )?(did not find .*|found a tab .*)`)

// documents reads the first YAML document of a file and the one after it; nil: there is none.
// An error is that of the first one if doc is nil, else of what comes after it.
func documents(data []byte) (doc, more *yaml.Node, err error) {
	l := lines{rest: data}
	decoder := yaml.NewDecoder(&l)
	for _, into := range []**yaml.Node{&doc, &more} {
		var n yaml.Node
		switch err := decoder.Decode(&n); {
		case errors.Is(err, io.EOF):
			return doc, nil, nil
		case err != nil:
			if m := blockError.FindStringSubmatch(err.Error()); m != nil {
				err = errors.New("line " + strconv.Itoa(l.n) + ": " + m[1])
			}
			return doc, nil, err
		}
		*into = &n
	}
	return doc, more, nil
}

var syntaxLine = regexp.MustCompile(`^line (\d+): `)

// syntaxError describes an error of [documents]. Only the error's text has the line, in which the parser met what it
// did not understand; syntaxHint follows the reason where the line is known.
func syntaxError(err error) strict.Error {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	at := strict.Pos{}
	if m := syntaxLine.FindStringSubmatch(reason); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		reason = reason[len(m[0]):] + syntaxHint
	}
	return strict.Error{Pos: at, Reason: "this is not YAML, here or in the lines above: " + reason}
}

const syntaxHint = "; indent with spaces, and write quotes around text that has { } [ ] , : # & or *"

func fail(errs *strict.Errors, at strict.Pos, path, reason string) {
	errs.Add(strict.Error{Pos: at, Path: path, Reason: reason})
}

// converter turns YAML nodes into strict nodes and reports those that are not allowed.
type converter struct {
	errs *strict.Errors
}

func (c *converter) node(y *yaml.Node, path string, depth int) strict.Node {
	n := strict.Node{Pos: strict.Pos{Line: y.Line, Column: y.Column}}
	switch {
	case depth > strict.MaxDepth:
		n.Kind, n.Text = strict.Other, "nested more than "+strconv.Itoa(strict.MaxDepth)+" deep"
	case y.Kind == yaml.AliasNode:
		n.Kind, n.Text = strict.Other, "an alias (*"+y.Value+"), which rules do not support"
	case y.Style&yaml.TaggedStyle != 0:
		n.Kind, n.Text = strict.Other, "tagged "+y.Tag+", which rules do not support"
	case y.Kind == yaml.MappingNode:
		n.Kind = strict.Object
		c.fields(&n, y.Content, path, depth)
	case y.Kind == yaml.SequenceNode:
		n.Kind = strict.List
		n.Items = make([]strict.Node, 0, len(y.Content))
		for i, item := range y.Content {
			n.Items = append(n.Items, c.node(item, strict.Index(path, i), depth+1))
		}
	default:
		scalar(&n, y)
	}
	return n
}

func (c *converter) fields(n *strict.Node, content []*yaml.Node, path string, depth int) {
	lines := map[string]int{}
	n.Fields = make([]strict.Field, 0, len(content)/2)
	for i := 0; i+1 < len(content); i += 2 {
		key, value := content[i], content[i+1]
		at := strict.Pos{Line: key.Line, Column: key.Column}
		below := strict.Join(path, key.Value)
		switch {
		case key.Tag == "!!merge":
			fail(c.errs, at, path, "merges with <<; write the fields themselves")
		case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0:
			fail(c.errs, at, path, "has a field whose name is not a string; write a plain name")
		case key.ShortTag() != "!!str":
			fail(c.errs, at, below, "the name is no string; write it in quotes, "+strict.Quote(key.Value))
		case lines[key.Value] != 0:
			fail(c.errs, at, below, "is given twice, the first is at line "+strconv.Itoa(lines[key.Value])+"; remove one")
		default:
			lines[key.Value] = key.Line
			n.Fields = append(n.Fields, strict.Field{Name: key.Value, Pos: at, Value: c.node(value, below, depth+1)})
		}
	}
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func scalar(n *strict.Node, y *yaml.Node) {
	n.Text = y.Value
	switch y.ShortTag() {
	case "!!str":
		n.Kind = strict.String
	case "!!int":
		n.Kind = strict.Number // 0x10, 1_000 and 010 are easily misread
		if decimal.MatchString(y.Value) {
			n.Kind = strict.Int
		}
	case "!!float":
		n.Kind = strict.Number
	case "!!bool":
		n.Kind, n.Text = strict.Bool, strings.ToLower(y.Value)
	case "!!null":
		n.Kind = strict.Null
	case "!!timestamp":
		n.Kind, n.Text = strict.Other, "a date to YAML unless it is in quotes"
		if len(y.Value) > len("2026-12-01") { // until: 2026-12-01T00:00:00Z
			n.Kind, n.Text = strict.String, y.Value
		}
	default:
		n.Kind, n.Text = strict.Other, "of the type "+y.ShortTag()
	}
}
