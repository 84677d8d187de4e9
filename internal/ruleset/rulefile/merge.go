package rulefile

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// A directory is read as one document: the rules of its files stand one behind the other, and what concerns all rules is
// stated once, or the same everywhere.

// source is a file of a directory.
type source struct {
	file string
	root *strict.Node
	errs strict.Errors
}

// place is where an item of the document stands.
type place struct {
	in    *source
	index int
}

// merged is the document that files make.
type merged struct {
	dir     string
	sources []*source
	errs    strict.Errors // of no file
	root    strict.Node
	fields  map[string]*source // by field: who states it first
	items   map[string][]place // of the fields that are lists of items
}

// listed are the fields of which each file has its own items.
var listed = []string{"candidates", "rules", "tests"}

// merge makes one document of the files of a directory. It notes mistakes.
func merge(dir string, files []File) *merged {
	m := &merged{dir: dir, root: strict.Node{Kind: strict.Object}, fields: map[string]*source{}, items: map[string][]place{}}
	owners := m.owners(files)
	for _, f := range files {
		if filepath.Base(f.Name) == ownersFile {
			continue
		}
		s := &source{file: f.Name}
		m.sources = append(m.sources, s)
		s.root = parse(f.Data, "rules: [] for no rules", &s.errs)
		if doc := strict.Root(s.root, &s.errs); s.root != nil && doc.Is(strict.Object, "a mapping with rules") {
			owners.bind(s, doc)
			if len(files) > 1 {
				liftOwn(doc)
			}
			m.add(s, doc)
		}
	}
	return m
}

// add adds what a file states.
func (m *merged) add(s *source, doc strict.Value) {
	for _, f := range s.root.Fields {
		mine, first := m.root.Field(f.Name), m.fields[f.Name]
		switch {
		case slices.Contains(listed, f.Name):
			if !doc.Field(f.Name).Is(strict.List, "a list; [] for none") {
				continue
			}
			for i := range f.Value.Items {
				m.items[f.Name] = append(m.items[f.Name], place{s, i})
			}
			if mine != nil {
				mine.Items = append(mine.Items, f.Value.Items...)
				continue
			}
			f.Value.Items = slices.Clone(f.Value.Items)
		case first != nil:
			if !same(mine, &f.Value) {
				at := first.file + ":" + strconv.Itoa(m.root.Find(f.Name).Line)
				doc.FailName(f.Name, "is not what "+at+" states; it concerns the rules of all files, so write it in one of them")
			}
			continue
		}
		m.fields[f.Name] = s
		m.root.Fields = append(m.root.Fields, f)
	}
}

// same reports whether two values mean the same.
func same(a, b *strict.Node) bool {
	return a.Kind == b.Kind && a.Text == b.Text &&
		slices.EqualFunc(a.Items, b.Items, func(a, b strict.Node) bool { return same(&a, &b) }) &&
		len(a.Fields) == len(b.Fields) && !slices.ContainsFunc(a.Fields, func(f strict.Field) bool {
		other := b.Field(f.Name)
		return other == nil || !same(&f.Value, other)
	})
}

// liftOwn has the exempt rules of a file that name no others lift those of this file.
func liftOwn(doc strict.Value) {
	var own []strict.Node
	var all []strict.Value
	for _, r := range items(doc.Field("rules")) {
		name := r.Field("name")
		switch mode := r.Field("mode"); {
		case mode.Present() && mode.Node().Text == rule.Exempt.String():
			if !r.Field("exempts").Present() {
				all = append(all, r)
			}
		case name.Kind() == strict.String:
			own = append(own, *name.Node())
		}
	}
	for _, r := range all {
		if len(own) == 0 {
			r.FailName("mode", "lifts nothing, as this file has no other rule; write exempts and the names of rules")
			continue
		}
		exempts := strict.Node{Kind: strict.List, Pos: r.Node().Pos, Items: own}
		r.Node().Fields = append(r.Node().Fields, strict.Field{Name: "exempts", Pos: exempts.Pos, Value: exempts})
	}
}

var itemPath = regexp.MustCompile(`\b(candidates|rules|tests)\[(\d+)\]([^\s;,()]*)(?: \(line (\d+)\))?`)

// locate finds the item that a path begins with.
func (m *merged) locate(list, index string) (at place, ok bool) {
	i, err := strconv.Atoi(index)
	if err != nil || i >= len(m.items[list]) {
		return place{}, false
	}
	return m.items[list][i], true
}

// move makes the place of a mistake in the document that in its file; nil: it is in no file.
func (m *merged) move(e *strict.Error) (in *source) {
	if p := itemPath.FindStringSubmatch(e.Path); p != nil {
		if at, ok := m.locate(p[1], p[2]); ok {
			in, e.Path = at.in, strict.Index(p[1], at.index)+p[3]
		}
	} else if !slices.Contains(listed, e.Path) {
		in = m.fields[firstStep.FindString(e.Path)]
	}
	if in == nil {
		e.File, e.Pos = m.dir, strict.Pos{}
	} else {
		e.File = in.file
	}
	return in
}

// report notes the mistakes of the document in the files that have them.
func (m *merged) report(errs strict.Errors) {
	broken := slices.ContainsFunc(m.sources, func(s *source) bool { return s.root == nil })
	for _, e := range errs {
		in := m.move(&e)
		e.Reason = m.elsewhere(e.Reason, in)
		switch {
		case in != nil:
			in.errs.Add(e)
		case !broken: // else what is missing may be in that file
			m.errs.Add(e)
		}
	}
}

var firstStep = regexp.MustCompile(`^\w+`)

// elsewhere has the paths of a reason as those of their files, for a reader of in.
func (m *merged) elsewhere(reason string, in *source) string {
	return itemPath.ReplaceAllStringFunc(reason, func(text string) string {
		p := itemPath.FindStringSubmatch(text)
		at, ok := m.locate(p[1], p[2])
		if !ok {
			return text
		}
		where := ""
		switch {
		case at.in != in && p[4] != "":
			where = " (" + at.in.file + ":" + p[4] + ")"
		case at.in != in:
			where = " (" + at.in.file + ")"
		case p[4] != "":
			where = " (line " + p[4] + ")"
		}
		return strict.Index(p[1], at.index) + p[3] + where
	})
}

// err has the mistakes of all files, in their order.
func (m *merged) err() error {
	var all strict.Errors
	for _, s := range append([]*source{{file: m.dir, errs: m.errs}}, m.sources...) {
		s.errs.SortFrom(0)
		for _, e := range s.errs {
			e.File = s.file
			all.Add(e)
		}
	}
	return all.Err()
}
