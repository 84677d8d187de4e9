package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Context is an installation.
type Context struct {
	Name string
	URL  string // of an admin port, such as https://weir.example.com:8090
	// Token and TokenFile are the caller's token, or a file with it; one or none.
	Token, TokenFile string
	CA               string // file with the authorities of the server; empty: those of the system
	Cert, Key        string // files with the caller's certificate; both or none
}

// File is the file of contexts.
type File struct {
	Path     string
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
	path, err := path()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{Path: path, Contexts: []Context{local}}, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := rulefile.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path}
	err = rulefile.ReadDocument(path, data.Data, "contexts: []", f.read)
	for _, c := range f.Contexts {
		if c.Token != "" && info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("%s has tokens, and the mode %04o, with which others may read it; chmod go-rwx", path, info.Mode().Perm())
		}
	}
	return f, err
}

func (f *File) read(doc strict.Value) {
	doc.Object("current", "contexts")
	f.Current, _ = doc.Field("current").String("the name of a context")
	for _, v := range doc.Field("contexts").List(1000, "a list, such as [{ name: prod, url: https://weir.example.com:8090, token_file: prod.token }]") {
		var c Context
		fields := map[string]*string{
			"name": &c.Name, "url": &c.URL, "token": &c.Token, "token_file": &c.TokenFile, "ca": &c.CA, "cert": &c.Cert, "key": &c.Key,
		}
		v.Object("name", "url", "token", "token_file", "ca", "cert", "key")
		for name, into := range fields {
			if field := v.Field(name); field.Kind() != strict.String && name == "token" && field.Present() {
				field.Fail("must be a token in quotes") // is not repeated
			} else {
				*into, _ = field.String("a text")
			}
		}
		v.Field("name").Require("a name")
		v.Field("url").Require("the address of an admin port, such as https://weir.example.com:8090")
		if c.Token != "" && c.TokenFile != "" {
			v.Field("token").Fail("goes not together with token_file; keep one")
		}
		if (c.Cert == "") != (c.Key == "") {
			v.Fail("cert and key go together; write both or none")
		}
		for _, path := range []*string{&c.TokenFile, &c.CA, &c.Cert, &c.Key} {
			if *path != "" && !filepath.IsAbs(*path) {
				*path = filepath.Join(filepath.Dir(f.Path), *path)
			}
		}
		if _, err := f.find(c.Name); err == nil {
			v.Field("name").Fail("is given twice; write another one")
		}
		f.Contexts = append(f.Contexts, c)
	}
	if f.Current != "" {
		if _, err := f.find(f.Current); err != nil {
			doc.Field("current").Fail(err.Error())
		}
	}
}

// Find returns a context; an empty name is the current one.
func (f *File) Find(name string) (Context, error) {
	switch {
	case name != "":
		return f.find(name)
	case f.Current != "":
		return f.find(f.Current)
	case len(f.Contexts) == 1:
		return f.Contexts[0], nil
	}
	return Context{}, fmt.Errorf("%s does not say which context is the current one; give --context, or write current: NAME into it", f.Path)
}

func (f *File) find(name string) (Context, error) {
	var names []string
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Context{}, fmt.Errorf("there is no context %s in %s; it has %s", strict.Quote(name), f.Path, strings.Join(names, ", "))
}
