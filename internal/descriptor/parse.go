package descriptor

import (
	"strconv"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// File is one file of a configuration. The name is only used in messages.
type File struct {
	Name string
	Data []byte
}

// Options are the settings of envoyproxy/ratelimit that change the meaning of files.
type Options struct {
	// MergeDomains allows a domain in several files (MERGE_DOMAIN_CONFIG); the
	// descriptors of a later file come after those of an earlier one.
	MergeDomains bool
}

// Parse reads a configuration. The error, if any, is of type [strict.Errors],
// file by file, each from its top. No files make a configuration without domains.
func Parse(files []File, o Options) (*Config, error) {
	b := builder{options: o, config: &Config{domains: map[string]*node{}}}
	for i := range files {
		errs, warnings := len(b.errs), len(b.warnings)
		b.add(&files[i])
		b.errs.SortFrom(errs)
		b.warnings.SortFrom(warnings)
	}
	if len(b.errs) > 0 {
		return nil, b.errs
	}
	b.config.seal()
	b.checkReplaces()
	b.config.warnings = b.warnings
	return b.config, nil
}

// builder puts the domains of all files together.
type builder struct {
	options  Options
	config   *Config
	errs     strict.Errors
	warnings strict.Errors
}

func (b *builder) add(f *File) {
	r := reader{file: f.Name, errs: &b.errs, warnings: &b.warnings, left: maxParts}
	root := parse(&r, f.Data)
	if root == nil {
		return
	}
	fields, ok := r.fields(root, "", inFile)
	if !ok {
		return
	}
	r.domain = r.required(root, fields, "", "domain", "a domain groups the limits that belong together")
	r.descriptors(b.domain(&r, fields["domain"].pos), fields["descriptors"], "descriptors", 1)
}

// domain returns the domain of a file. After a mistake in the domain the rest of the
// file is still read, for its mistakes.
func (b *builder) domain(r *reader, at strict.Pos) *node {
	name := r.domain
	present := b.config.domains[name]
	switch {
	case present != nil && b.options.MergeDomains:
		return present
	case present != nil:
		r.fail(at, "domain", strict.Quote(name)+" is in "+present.file+" too; write each domain in one file, or allow several to be merged")
	}
	n := &node{level: level{key: name}, path: string(appendKeyName(nil, name)), file: r.file}
	if name != "" && present == nil {
		b.config.domains[name] = n
		b.config.order = append(b.config.order, n)
	}
	return n
}

// checkReplaces warns of replaces that name no rule of their domain.
func (b *builder) checkReplaces() {
	names := map[[2]string]bool{}
	for r := range b.config.Rules() {
		names[[2]string{r.Domain, r.Name}] = true
	}
	for r := range b.config.Rules() {
		for _, name := range r.Replaces {
			if !names[[2]string{r.Domain, name}] {
				b.warnings.Add(strict.Error{File: r.File, Pos: strict.Pos{Line: r.Line}, Path: r.Path,
					Reason: "replaces " + strict.Quote(name) + ", which no rate_limit in domain " + strict.Quote(r.Domain) + " is named; it replaces nothing"}, more)
			}
		}
	}
}

// maxDepth is how many levels of descriptors, or of metadata, there may be.
const maxDepth = 32

// maxParts is how many descriptors and values of metadata a file may have. Those of an
// alias are counted each time that it is used.
const maxParts = 1 << 20

func (r *reader) descriptors(parent *node, f field, path string, depth int) {
	if depth > maxDepth && f.value != nil {
		r.fail(f.pos, path, "has descriptors more than "+strconv.Itoa(maxDepth)+" levels deep; write fewer levels")
		return
	}
	for i, item := range r.list(f, path) {
		if !r.take(item, path) {
			return
		}
		r.descriptor(parent, item, strict.Index(path, i), depth)
	}
}

// descriptor reads one descriptor and what is below it.
func (r *reader) descriptor(parent *node, at *yamlNode, path string, depth int) {
	fields, ok := r.fields(at, path, inDescriptor)
	if !ok {
		return
	}
	n := &node{file: r.file, line: at.Line, level: level{
		key:           r.required(at, fields, path, "key", "it is compared with the keys of a request's entries"),
		value:         r.text(fields["value"], path+".value"),
		share:         r.boolean(fields["share_threshold"], path+".share_threshold"),
		valueToMetric: r.boolean(fields["value_to_metric"], path+".value_to_metric"),
	}}
	r.place(parent, n, fields, path)
	n.rule = r.rule(n, fields, path)
	r.descriptors(n, fields["descriptors"], path+".descriptors", depth+1)
}

// place makes n a child of its parent.
func (r *reader) place(parent, n *node, fields map[string]field, path string) {
	l := &n.level
	l.wildcard = hasStar(l.value)
	if hasStar(l.key) {
		r.warn(fields["key"].pos, path+".key", "has a *, which is an ordinary character in a key; wildcards are for values")
	}
	if l.share && !l.wildcard {
		r.fail(fields["share_threshold"].pos, path+".share_threshold", "is only for a value with a wildcard; write a * in the value or leave it out")
	}
	n.levels = append(append(make([]level, 0, len(parent.levels)+1), parent.levels...), *l)
	n.path = string(appendLevel([]byte(parent.path), l.key, l.value))
	if l.key == "" {
		return // reported
	}
	if present := parent.attach(n); present != nil {
		what := "key " + strict.Quote(l.key)
		if l.value != "" {
			what += " and value " + strict.Quote(l.value)
		} else {
			what += " and no value"
		}
		r.fail(fields["key"].pos, path, "has the "+what+", as has the descriptor at "+present.file+":"+strconv.Itoa(present.line)+" beside it; remove one")
	}
}
