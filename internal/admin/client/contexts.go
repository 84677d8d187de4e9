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
	Name string `json:"name"`
	URL  string `json:"url"` // of an admin port, such as https://weir.example.com:8090
	// Token and TokenFile are the caller's token, or a file with it; one or none.
	Token     string `json:"-"`
	TokenFile string `yaml:"token_file" json:"token_file,omitempty"`
	CA        string `yaml:"ca" json:"ca,omitempty"`     // file with the authorities of the server; empty: those of the system
	Cert      string `yaml:"cert" json:"cert,omitempty"` // file with the caller's certificate, and Key with its key; both or none
	Key       string `yaml:"key" json:"key,omitempty"`
}

// File is the file of contexts.
type File struct {
	Path     string    `yaml:"-" json:"path"`
	Current  string    `json:"current"` // name; empty: that of the only one
	Contexts []Context `json:"contexts"`
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
	path, err := path()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
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
	info, err := os.Stat(f.Path)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range f.Contexts {
		c := &f.Contexts[i]
		wrong = errors.Join(wrong,
			settings.Refuse(c.Name == "" || names[c.Name], "contexts[%d].name: is missing, or given twice", i),
			settings.Refuse(c.URL == "", "contexts[%d].url: is missing; write the address of an admin port, such as https://weir.example.com:8090", i),
			settings.Refuse(c.Token != "" && c.TokenFile != "", "contexts[%d].token: goes not together with token_file; keep one", i),
			settings.Pair("cert", c.Cert, "key", c.Key),
			settings.Refuse(c.Token != "" && info.Mode().Perm()&0o077 != 0, "contexts[%d].token: others may read the file; chmod go-rwx", i),
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
