package rulefile

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// ownersFile is the file of a directory that bounds what its other files may have.
const ownersFile = "owners.yaml"

const ownersForm = "the files and their bounds, such as owners: { team-a.yaml: { prefix: team-a-, rules: 20 } }"

// bound is what a file may have.
type bound struct {
	prefix string // of the names of its rules; empty: any, and the file may state what concerns all rules
	rules  int    // at most; 0: any number
	at     string // where that is stated
}

// owners has the bounds by the names of files; nil: there are none.
type owners map[string]*bound

// owners reads the file that has them, if there is one.
func (m *merged) owners(files []File) owners {
	i := slices.IndexFunc(files, func(f File) bool { return filepath.Base(f.Name) == ownersFile })
	if i < 0 {
		return nil
	}
	s := &source{file: files[i].Name}
	m.sources = append(m.sources, s)
	all := owners{}
	root := parse(files[i].Data, ownersForm, &s.errs)
	if root == nil {
		return all
	}
	doc := strict.Root(root, &s.errs)
	if !doc.Object("owners") || !doc.Field("owners").Require(ownersForm) || !doc.Field("owners").Is(strict.Object, ownersForm) {
		return all
	}
	for _, name := range doc.Field("owners").Names() {
		v := doc.Field("owners").Field(name)
		b := &bound{at: s.file + ":" + strconv.Itoa(v.Node().Pos.Line)}
		if v.Object("prefix", "rules") {
			b.prefix, _ = v.Field("prefix").String("what the names of its rules begin with")
			n, _ := v.Field("rules").Int(1, rule.MaxRules)
			b.rules = int(n)
		}
		all[name] = b
	}
	return all
}

// bind checks a file against its bounds.
func (all owners) bind(s *source, doc strict.Value) {
	if all == nil {
		return
	}
	b := all[filepath.Base(s.file)]
	if b == nil {
		doc.Fail(ownersFile + " does not have this file; write its bounds there, " + filepath.Base(s.file) + ": { prefix: team-a-, rules: 20 }, or {} for none")
		return
	}
	rules := doc.Field("rules")
	if n := len(items(rules)); b.rules > 0 && n > b.rules {
		rules.Fail("has " + strconv.Itoa(n) + " rules; write at most " + strconv.Itoa(b.rules) + " (" + b.at + ")")
	}
	if b.prefix == "" {
		return
	}
	for _, name := range doc.Names() {
		if !slices.Contains(listed, name) {
			doc.FailName(name, "concerns the rules of all files; write it in a file without a prefix ("+b.at+")")
		}
	}
	own := func(v strict.Value) {
		if v.Kind() == strict.String && !strings.HasPrefix(v.Node().Text, b.prefix) {
			v.Fail(strict.Quote(v.Node().Text) + " does not begin with " + b.prefix + ", as names in this file must (" + b.at + ")")
		}
	}
	for _, r := range items(rules) {
		own(r.Field("name"))
		for _, from := range items(r.Field("exempts")) {
			own(from)
		}
	}
	for _, c := range items(doc.Field("candidates")) {
		own(c.Field("rule"))
	}
}

// items are those of a list; none if it is absent or no list, which is reported elsewhere.
func items(v strict.Value) []strict.Value {
	if v.Kind() != strict.List {
		return nil
	}
	return v.List(len(v.Node().Items), "")
}
