package descriptor

import (
	"crypto/sha256"
	"encoding/hex"

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
	r := reader{builder: b, file: f.Name}
	doc := r.decode(f.Data)
	if doc == nil {
		return
	}
	domain := doc.value.Domain
	if r.domain = domain.value; r.domain == "" {
		r.fail(max(doc.line, domain.line), "domain", "is missing or empty; write a text: a domain groups the limits that belong together")
	}
	r.descriptors(r.openDomain(domain.line), doc.value.Descriptors, "descriptors", 1)
}

// openDomain returns the domain of the file. After a mistake in the domain the rest of the
// file is still read, for its mistakes.
func (r *reader) openDomain(line int) *Level {
	name := r.domain
	present := r.config.domains[name]
	switch {
	case present != nil && r.options.MergeDomains:
		return present
	case present != nil:
		r.fail(line, "domain", strict.Quote(name)+" is in "+present.File+" too; write each domain in one file, or allow several to be merged")
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
