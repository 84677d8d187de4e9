package descriptor

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// File is one file of a configuration. The name is only used in messages.
type File = rulefile.File

// Options are the settings of envoyproxy/ratelimit that change the meaning of files.
type Options struct {
	// MergeDomains allows a domain in several files (MERGE_DOMAIN_CONFIG); the
	// descriptors of a later file come after those of an earlier one.
	MergeDomains bool
}

// Parse reads a configuration. The error, if any, is of type [strict.Errors],
// file by file, each from its top. No files make a configuration without domains.
func Parse(files []File, o Options) (*Config, error) {
	b := builder{options: o, config: &Config{domains: map[string]*Level{}}}
	content := sha256.New()
	for i := range files {
		errs, warnings := len(b.errs), len(b.config.warnings)
		b.add(&files[i])
		b.errs.SortFrom(errs)
		b.config.warnings.SortFrom(warnings)
		content.Write(files[i].Data)
		content.Write([]byte{0}) // which is in no file without mistakes
	}
	if len(b.errs) > 0 {
		return nil, b.errs
	}
	b.checkReplaces()
	b.config.version = hex.EncodeToString(content.Sum(nil)[:8])
	return b.config, nil
}

// builder puts the domains of all files together.
type builder struct {
	options Options
	config  *Config
	errs    strict.Errors
}

func (b *builder) add(f *File) {
	r := reader{builder: b, file: f.Name, left: maxParts}
	root := r.parse(f.Data)
	if root == nil {
		return
	}
	fields, ok := r.fields(root, "", inFile)
	if !ok {
		return
	}
	r.domain = r.required(root, fields, "", "domain", "a domain groups the limits that belong together")
	r.descriptors(r.openDomain(fields["domain"].pos), fields["descriptors"], "descriptors", 1)
}

// openDomain returns the domain of the file. After a mistake in the domain the rest of the
// file is still read, for its mistakes.
func (r *reader) openDomain(at strict.Pos) *Level {
	name := r.domain
	present := r.config.domains[name]
	switch {
	case present != nil && r.options.MergeDomains:
		return present
	case present != nil:
		r.fail(at, "domain", strict.Quote(name)+" is in "+present.File+" too; write each domain in one file, or allow several to be merged")
	}
	n := &Level{Key: name, Path: string(appendKeyName(nil, name)), File: r.file}
	if name != "" && present == nil {
		r.config.domains[name] = n
		r.config.order = append(r.config.order, n)
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
				b.config.warnings.Add(strict.Error{File: r.File, Pos: strict.Pos{Line: r.Line}, Path: r.Path,
					Reason: "replaces " + strict.Quote(name) + ", but no rate_limit in domain " + strict.Quote(r.Domain) + " has this name; it replaces nothing"})
			}
		}
	}
}

// maxDepth is how many levels of descriptors, or of metadata, there may be.
const maxDepth = 32

// maxParts is how many descriptors and values of metadata a file may have. Those of an
// alias are counted each time that it is used.
const maxParts = 1 << 20

func (r *reader) descriptors(parent *Level, f field, path string, depth int) {
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
func (r *reader) descriptor(parent *Level, at *yamlNode, path string, depth int) {
	fields, ok := r.fields(at, path, inDescriptor)
	if !ok {
		return
	}
	n := &Level{
		File: r.file, Line: at.Line,
		Key:           r.required(at, fields, path, "key", "it is compared with the keys of a request's entries"),
		Value:         r.text(fields["value"], path+".value"),
		Shared:        r.boolean(fields["share_threshold"], path+".share_threshold"),
		valueToMetric: r.boolean(fields["value_to_metric"], path+".value_to_metric"),
	}
	r.place(parent, n, fields, path)
	if n.Rule = r.rule(n, fields, path); n.Rule != nil {
		r.config.rules = append(r.config.rules, n.Rule)
	}
	r.descriptors(n, fields["descriptors"], path+".descriptors", depth+1)
}

// place makes n a child of its parent.
func (r *reader) place(parent, n *Level, fields map[string]field, path string) {
	n.Wildcard = strings.Contains(n.Value, "*")
	if strings.Contains(n.Key, "*") {
		r.warn(fields["key"].pos, path+".key", "has a *, which is an ordinary character in a key; wildcards are for values")
	}
	if n.Shared && !n.Wildcard {
		r.fail(fields["share_threshold"].pos, path+".share_threshold", "is only for a value with a wildcard; write a * in the value or leave it out")
	}
	n.way = append(parent.way[:len(parent.way):len(parent.way)], n)
	n.Path = string(appendLevel([]byte(parent.Path), n.Key, n.Value))
	if n.Key == "" {
		return // reported
	}
	if present := parent.attach(n); present != nil {
		what := "key " + strict.Quote(n.Key)
		if n.Value != "" {
			what += " and value " + strict.Quote(n.Value)
		} else {
			what += " and no value"
		}
		r.fail(fields["key"].pos, path, "has the "+what+", like the descriptor at "+present.File+":"+strconv.Itoa(present.Line)+" beside it; remove one")
	}
}
