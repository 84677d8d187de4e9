package main

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed README.md
var readme string

// pack makes all files of a release of what was built, in place of those of a directory.
func (r *release) pack(built, dir string) error {
	next := dir + ".new" // so that nothing is there half
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o755)); err != nil {
		return err
	}
	digests := map[string]string{}
	for _, step := range []func() error{
		func() error { return r.programs(built, next) },
		func() error { return r.sources(next) },
		func() error { return r.images(built, next, digests) },
		func() error { return r.provenance(next, digests) },
		func() error { return writeSums(next) },
	} {
		if err := step(); err != nil {
			return errors.Join(err, os.RemoveAll(next))
		}
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(next, dir))
}

// programs packs an archive for each platform, and puts the filter and the lists of what all is made of beside them.
func (r *release) programs(built, dir string) error {
	license, err := file(filepath.Join(r.root, "LICENSE"), "LICENSE")
	if err != nil {
		return err
	}
	for _, p := range platforms {
		entries := []entry{license}
		for _, program := range p.programs {
			e, err := file(filepath.Join(built, p.String(), program), "bin/"+program)
			if err != nil {
				return err
			}
			entries = append(entries, e)
			name := program + "_" + r.version + "_" + p.String()
			if program == filter || program == native {
				name = "weir_" + r.version + ".wasm"
				if program == native {
					name = "weir_" + r.version + "_" + p.String() + ".so"
				}
				err = os.WriteFile(filepath.Join(dir, name), e.content, 0o644)
			}
			list, failed := os.ReadFile(filepath.Join(built, p.String(), program+".cdx.json"))
			if err := errors.Join(err, failed, os.WriteFile(filepath.Join(dir, name+".cdx.json"), list, 0o644)); err != nil {
				return err
			}
		}
		if p.os == "linux" {
			more, err := r.beside(built)
			if err != nil {
				return err
			}
			entries = append(entries, more...)
		}
		if p.os != wasm.os {
			if err := r.archive(dir, "weir_"+r.version+"_"+p.String(), ".tar.gz", entries); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside is what an archive has beside the programs where Envoy runs, too: the filter, and how to configure Envoy.
func (r *release) beside(built string) ([]entry, error) {
	module, err := file(filepath.Join(built, wasm.String(), filter), "bin/"+filter)
	if err != nil {
		return nil, err
	}
	envoy, err := r.tree("envoy")
	envoy = slices.DeleteFunc(envoy, func(e entry) bool {
		return strings.Contains(e.name, "/") || !slices.Contains([]string{".yaml", ".md", ".sh"}, filepath.Ext(e.name))
	})
	for i := range envoy {
		envoy[i].name = "envoy/" + envoy[i].name
	}
	return append(envoy, module, entry{name: "README.md", content: []byte(strings.ReplaceAll(readme, "VERSION", r.version))}), err
}

// sources packs what is used as it is: the Terraform modules, and the chart.
func (r *release) sources(dir string) error {
	terraform, err := r.tree("terraform")
	if err != nil {
		return err
	}
	if err := r.archive(dir, "weir-terraform_"+r.version, ".tar.gz", terraform); err != nil {
		return err
	}
	chart, err := r.tree("deploy/chart")
	if err != nil {
		return err
	}
	for i := range chart { // Helm wants the name of the chart as the directory
		chart[i].name = "weir/" + chart[i].name
	}
	return r.write(dir, "weir-"+r.version+".tgz", chart)
}

// archive packs files into a directory that has the archive's name.
func (r *release) archive(dir, name, ending string, entries []entry) error {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].name = name + "/" + entries[i].name
	}
	return r.write(dir, name+ending, entries)
}

func (r *release) write(dir, name string, entries []entry) error {
	archive, err := tarball(entries, r.time)
	if err == nil {
		archive, err = compressed(archive)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), archive, 0o644)
}
