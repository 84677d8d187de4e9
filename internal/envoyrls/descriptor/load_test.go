package descriptor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// tree makes files in a new directory. A name that ends with -> is a link to the file that its text names.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if path, link := strings.CutSuffix(filepath.Join(dir, name), "->"); link {
			fatal.If(t, os.Symlink(text, path))
		} else {
			proc.WriteFile(t, path, text)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string // domains in order, or the error without the directory
	}{
		{"files by name, whatever they end with", map[string]string{"b.yaml": "domain: b", "a.yml": "domain: a", "c": "domain: c", "d.json": `{"domain": "d"}`}, "a b c d"},
		{"folders", map[string]string{"z.yaml": "domain: z", "m/n/x.yaml": "domain: x", "m/a.yaml": "domain: a"}, "a x z"},
		{"what is hidden is none", map[string]string{"a.yaml": "domain: a", ".a.yaml.swp": "\x00", ".git/config": "[core]"}, "a"},
		{"a volume of Kubernetes", map[string]string{
			"..2026_11_21/a.yaml": "domain: a", "..2026_11_21/team/b.yaml": "domain: b", "..data->": "..2026_11_21",
			"a.yaml->": "..data/a.yaml", "team->": "..data/team",
		}, "a b"},
		{"nothing", nil, "rate limit configuration: DIR has no files; for no limits write a file with a domain: and no descriptors"},
		{"only what is hidden", map[string]string{".a.yaml": "domain: a"}, "rate limit configuration: DIR has no files; for no limits write a file with a domain: and no descriptors"},
		{"a mistake in one", map[string]string{"a.yaml": "domain: a", "b.yaml": "domain: b\ndescriptors: 5", "c.md": "# Limits"},
			"DIR/b.yaml:2: cannot unmarshal !!int `5` into descriptor.descriptors\nDIR/c.md: domain: is missing or empty; write a text: a domain groups the limits that belong together"},
		{"a link to nowhere", map[string]string{"a.yaml": "domain: a", "b.yaml->": "gone"}, "rate limit configuration: stat DIR/b.yaml: no such file or directory"},
		{"a link that leads back", map[string]string{"a.yaml": "domain: a", "b->": "."}, "rate limit configuration: DIR/b/b/b/b/b/b/b/b/b is more than 8 folders deep; does a link lead back?"},
		{"a device", map[string]string{"a.yaml->": "/dev/null"}, "rate limit configuration: read DIR/a.yaml: neither a file nor a folder"},
	} {
		dir := tree(t, test.files)
		c, err := descriptor.Load(dir, descriptor.Options{MergeDomains: true})
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir, "DIR")
		} else {
			got = strings.Join(c.Domains(), " ")
		}
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestLoadFails(t *testing.T) {
	if _, err := descriptor.Load(filepath.Join(t.TempDir(), "gone"), descriptor.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	dir := tree(t, map[string]string{"a.yaml": "domain: a", "b.yaml": "domain: b"})
	if c, err := descriptor.Load(filepath.Join(dir, "a.yaml"), descriptor.Options{}); err != nil || len(c.Domains()) != 1 {
		t.Errorf("one file: %v", err)
	}
	large := t.TempDir()
	for i := range 5 {
		name := filepath.Join(large, strconv.Itoa(i))
		fatal.If(t, errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, 16<<20))) // holes
	}
	if _, err := descriptor.Read(large); err == nil || !strings.Contains(err.Error(), "has more than 67108864 bytes in all with "+filepath.Join(large, "4")) {
		t.Errorf("80 MiB in all: %v", err)
	}
	link := filepath.Join(t.TempDir(), "current")
	fatal.If(t, os.Symlink(tree(t, map[string]string{"a.yaml": "domain: a"}), link))
	fatal.Get(descriptor.Load(link, descriptor.Options{}))(t) // RUNTIME_ROOT is such a link
}
