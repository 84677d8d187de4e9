package docs

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/regions"
)

// judge judges documents by what the programs are.
type judge struct {
	t         *testing.T
	d         *Document           // that is judged
	elsewhere []string            // names of files that are not in the repository
	targets   []string            // of make
	variables []string            // of the environment
	programs  map[string][]string // flags of each program, and of each of its commands as "program command"
	metrics   map[string][]string // labels
	linked    map[string]bool     // files to which documents link
}

// check reports all that is wrong with a document, in its order but for examples, which come first.
func (j *judge) check(d *Document) {
	j.d = d
	for i := range d.Blocks {
		if err := j.example(&d.Blocks[i]); err != nil {
			j.fail(d.Blocks[i].Line, "%v", err)
		}
	}
	for _, s := range d.Spans {
		j.span(s)
	}
	for _, s := range d.Links {
		j.link(s)
	}
}

func (j *judge) fail(line int, format string, args ...any) {
	j.t.Errorf("%s:%d: "+format, append([]any{j.d.Path, line}, args...)...)
}

func (j *judge) example(b *Block) error {
	text := strings.Join(b.Lines, "\n")
	switch {
	case b.Lang == "plain", // a drawing, or a formula
		strings.HasPrefix(text, "upstreams = "), // TestModules plans with it
		strings.HasPrefix(text, "probes: "):     // TestPage of rulediff compares it
	case strings.HasPrefix(text, "rules.yaml:"):
		return j.failing(text)
	case strings.HasPrefix(text, "trip: "):
		_, err := regions.Parse("the example", text)
		return err
	case strings.HasPrefix(text, "user weir "):
		if acl := read(j.t, "internal/redis/redisstore/weir.acl"); !strings.Contains(acl, strings.TrimSpace(b.Lines[0])) {
			return errors.New("the line is not that of weir.acl")
		}
	case b.Lang == "text":
		if !slices.Contains([]string{frontPage, tutorial, slotsPage, protocolPage}, j.d.Path) { // TestTutorial and TestProtocolPages compare these
			return errors.New("no test compares what is printed")
		}
	case b.Lang == "yaml":
		return j.yaml(text + "\n")
	case b.Lang == "", b.Lang == "sh":
		for _, c := range commandsOf(b) {
			j.command(c)
		}
	default:
		return fmt.Errorf("an example in %q: no check is written for that", b.Lang)
	}
	return nil
}

// commandsOf are the commands of an example. One that begins with a loop is of all lines up to the end of that.
func commandsOf(b *Block) (all []Span) {
	for _, c := range b.Commands() {
		if last := len(all) - 1; last >= 0 && strings.HasPrefix(all[last].Text, "for ") && !strings.HasSuffix(all[last].Text, "done") {
			all[last].Text += "\n" + c.Text
		} else {
			all = append(all, c)
		}
	}
	return all
}

var assignment = regexp.MustCompile(`^([A-Z_]+)=\S* +`)

// command judges a line of a shell.
func (j *judge) command(c Span) {
	text, _, _ := strings.Cut(c.Text, " #")
	text = strings.TrimPrefix(strings.TrimSpace(text), "$ ")
	for m := assignment.FindStringSubmatch(text); m != nil; m = assignment.FindStringSubmatch(text) {
		j.variable(c.Line, m[1])
		text = text[len(m[0]):]
	}
	words := strings.Fields(text)
	name := ""
	if len(words) > 0 {
		name = strings.TrimPrefix(words[0], "bin/")
	}
	switch {
	case name == "make":
		for _, w := range words[1:] {
			if name, _, set := strings.Cut(w, "="); set {
				j.variable(c.Line, name)
			} else if !slices.Contains(j.targets, w) {
				j.fail(c.Line, "make %s: there is no such target", w)
			}
		}
	case strings.HasPrefix(name, "--"):
		j.arguments(c.Line, "", words)
	case j.programs[name] != nil:
		j.program(c.Line, name, words[1:])
	default:
		if err := j.shell(text); err != nil {
			j.fail(c.Line, "%v", err)
		}
	}
}

func (j *judge) variable(line int, name string) {
	if !slices.Contains(j.variables, name) {
		j.fail(line, "%s: nothing reads such a variable", name)
	}
}

// groups are the words of command lines that need a command after them.
var groups = []string{"weir", "weir-regional", "weir-global", "weir rules", "weir keys", "weir keys override", "weir keys candidate", "weir admin"}

// program judges a call of a program that is ours.
func (j *judge) program(line int, name string, words []string) {
	for len(words) > 0 && j.programs[name+" "+words[0]] != nil {
		name, words = name+" "+words[0], words[1:]
	}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") && slices.Contains(groups, name) {
		j.fail(line, "%s %s: there is no such command", name, words[0])
		return
	}
	j.arguments(line, name, words)
}

// arguments judges flags: of a program, or of any if it is empty.
func (j *judge) arguments(line int, program string, words []string) {
	for _, w := range words {
		flag, _, _ := strings.Cut(w, "=")
		known := !strings.HasPrefix(w, "--") || others[flag] != ""
		for name, flags := range j.programs {
			known = known || (program == "" || name == program) && slices.Contains(flags, flag)
		}
		if !known {
			j.fail(line, "%s: %s has no such flag", flag, cmp.Or(program, "no program"))
		}
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:weir|envoy)_[a-z0-9_]+(\{[^}]*\})?`)
	filePath   = regexp.MustCompile(`^\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_.*-]+)+/?$|^[A-Za-z0-9_-]+\.(md|yaml|sh|json|acl|proto|go|wasm)$`)
	mediaType  = regexp.MustCompile(`^(application|text)/[a-z+]+$`)     // such as text/plain
	rate       = regexp.MustCompile(`^\d+/(\d+[a-z]+|day|week|month)$`) // a limit such as 100/1m
	labelName  = regexp.MustCompile(`[a-z_]+`)

	// declaration is a function or method with its file: a/b.go: Type.Name
	declaration = regexp.MustCompile(`^([A-Za-z0-9_/.-]+\.go): ([A-Za-z0-9_.]+)$`)
)

// span judges what stands between backticks, if it is of a kind that can be judged.
func (j *judge) span(s Span) {
	if others[s.Text] != "" {
		return
	}
	first, _, _ := strings.Cut(s.Text, " ")
	name := strings.TrimPrefix(first, "bin/")
	switch {
	case s.Path:
		j.file(s)
	case declaration.MatchString(s.Text):
		j.declared(s)
	case rate.MatchString(s.Text), mediaType.MatchString(s.Text):
	case strings.HasPrefix(s.Text, "go test "):
		j.packages(s)
	case first == "make", assignment.MatchString(s.Text), strings.HasPrefix(first, "--"),
		j.programs[name] != nil && (first != s.Text || name != first):
		j.command(s)
	case anyVariable.FindString(s.Text) == s.Text:
		j.variable(s.Line, s.Text)
	case filePath.MatchString(s.Text):
		j.file(s)
	case metricName.MatchString(s.Text):
		for _, at := range metricName.FindAllStringIndex(s.Text, -1) {
			if !strings.HasPrefix(s.Text[at[1]:], "=") { // else a label
				j.metric(s.Line, s.Text[at[0]:at[1]])
			}
		}
	}
}

func (j *judge) file(s Span) {
	dir := path.Dir(j.d.Path)
	if !j.exists(path.Clean(s.Text)) && !j.exists(path.Join(dir, s.Text)) {
		j.fail(s.Line, "%s: there is no such file", s.Text)
	}
}

// packages judges the directories that a call of go names, with or without all below them.
func (j *judge) packages(s Span) {
	for _, word := range strings.Fields(s.Text) {
		if dir, ok := strings.CutPrefix(strings.TrimSuffix(word, "/..."), "./"); ok && !j.exists(dir) {
			j.fail(s.Line, "%s: there is no %s", s.Text, dir)
		}
	}
}

// declared judges a function or method that is named with its file.
func (j *judge) declared(s Span) {
	m := declaration.FindStringSubmatch(s.Text)
	begins := `(?m)^func ` + m[2] + `\b`
	if receiver, name, method := strings.Cut(m[2], "."); method {
		begins = `(?m)^func \((\w+ )?\*?` + receiver + `(\[[^)]*)?\) ` + name + `\b`
	}
	if !j.exists(m[1]) || !regexp.MustCompile(begins).MatchString(read(j.t, m[1])) {
		j.fail(s.Line, "%s declares no function %s", m[1], m[2])
	}
}

func (j *judge) metric(line int, text string) {
	name, labels, _ := strings.Cut(text, "{")
	if others[name] != "" {
		return
	}
	seen, ok := j.metrics[name]
	for _, suffix := range []string{"_bucket", "_sum", "_count"} { // of histograms
		if histogram, is := strings.CutSuffix(name, suffix); is && !ok {
			seen, ok = j.metrics[histogram]
		}
	}
	if !ok {
		j.fail(line, "%s: no program has such a metric", name)
		return
	}
	for _, pair := range strings.Split(strings.TrimSuffix(labels, "}"), ",") {
		if label := labelName.FindString(pair); label != "" && !slices.Contains(seen, label) {
			j.fail(line, "%s has no label %s; it has %s", name, label, strings.Join(seen, ", "))
		}
	}
}

func (j *judge) link(s Span) {
	if strings.Contains(s.Text, "://") {
		return // nothing here asks the network
	}
	file, fragment, _ := strings.Cut(s.Text, "#")
	target := j.d.Path
	if file != "" {
		target = path.Join(path.Dir(j.d.Path), file)
		j.linked[target] = true
	}
	if !j.exists(target) {
		j.fail(s.Line, "the link leads to %s, which is not there", target)
	} else if fragment != "" && !slices.Contains(Parse(target, read(j.t, target)).Headings, fragment) {
		j.fail(s.Line, "the link leads to #%s, and %s has no such heading", fragment, target)
	}
}
