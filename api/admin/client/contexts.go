package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/settings"
)

// Context is an installation.
type Context struct {
	Name      string
	URL       string // of an admin port, such as https://weir.example.com:8090
	TokenFile string `yaml:"token_file"` // with the caller's token; empty: it has none
	CA        string // file with the authorities of the server; empty: those of the system
	Cert, Key string // files with the caller's certificate and its key; both or none
}

// File is the file of contexts.
type File struct {
	Path     string `yaml:"-"`
	Current  string // name; empty: that of the only one
	Contexts []Context
}

// path is where the file is.
func path() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "weir", "contexts.yaml"), err
}

// local is the context of who has no file.
var local = Context{Name: "local", URL: "http://127.0.0.1:8090"}

// Load reads the file. Without one there is a context local, for a program on this machine.
func Load() (*File, error) {
	path, homeless := path() // a container may have no home
	text, err := os.ReadFile(path)
	if homeless != nil || errors.Is(err, fs.ErrNotExist) {
		return &File{Path: path, Current: local.Name, Contexts: []Context{local}}, nil
	}
	f := &File{Path: path}
	if err == nil {
		reader := yaml.NewDecoder(bytes.NewReader(text))
		reader.KnownFields(true)
		if err = reader.Decode(f); err == nil || errors.Is(err, io.EOF) {
			err = f.check()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	return f, err
}

// check names each mistake, and completes the names of files.
func (f *File) check() (wrong error) {
	names := map[string]bool{}
	for i := range f.Contexts {
		c := &f.Contexts[i]
		wrong = errors.Join(wrong,
			settings.Reject(c.Name == "" || names[c.Name], "contexts[%d].name: is missing, or given twice", i),
			settings.Reject(c.URL == "", "contexts[%d].url: is missing; write the address of an admin port, such as https://weir.example.com:8090", i),
			settings.Pair("cert", c.Cert, "key", c.Key),
		)
		names[c.Name] = true
		for _, path := range []*string{&c.TokenFile, &c.CA, &c.Cert, &c.Key} {
			if *path != "" && !filepath.IsAbs(*path) {
				*path = filepath.Join(filepath.Dir(f.Path), *path)
			}
		}
	}
	if f.Current == "" && len(f.Contexts) == 1 {
		f.Current = f.Contexts[0].Name
	}
	return wrong
}

// Find returns a context; an empty name is the current one.
func (f *File) Find(name string) (Context, error) {
	if name == "" {
		name = f.Current
	}
	var names []string
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if name == "" {
		return Context{}, fmt.Errorf("%s does not say which context is the current one; give --context, or write current: NAME into it", f.Path)
	}
	return Context{}, fmt.Errorf("there is no context %q in %s; it has %s", name, f.Path, strings.Join(names, ", "))
}
