package rulefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// directory makes a directory of files.
func directory(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

const (
	login  = "rules: [{ name: login, key: [client_ip], limit: 5/1m }]\n"
	search = "rules:\n- { name: search, key: [client_ip], limit: 9/1m }\n- { name: list, key: [], limit: 7/1m }\n"
)

// TestMerge: the files of a directory are one document, in the order of their names.
func TestMerge(t *testing.T) {
	dir := directory(t, map[string]string{
		"b.yaml": search, "a.json": `{"rules":[{"name":"login","key":["client_ip"],"limit":"5/1m"}],"regions":{"eu":3,"us":1}}`,
		"c.yml": "regions: { us: 1, eu: 3 }\nclient_ip: { trusted_hops: 1 }\n", ".hidden.yaml": "nonsense", "notes.txt": "nonsense", "a.yaml.bak": "nonsense",
	})
	fatal.If(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	d := fatal.Get(rulefile.Load(dir))(t)
	const text = `rules:
  # "a.json"
  - name: login
    key: [client_ip]
    limit: 5/1m
  # "b.yaml"
  - name: search
    key: [client_ip]
    limit: 9/1m
  - name: list
    key: []
    limit: 7/1m
regions: { eu: 3, us: 1 }
client_ip: { trusted_hops: 1 }
`
	if string(d.Text) != text {
		t.Errorf("text\n%swant\n%s", d.Text, text)
	}
	if want := fatal.Get(rulefile.Parse("f", []byte(text)))(t); d.Set.Content != want.Content {
		t.Errorf("got\n%s\nwant\n%s", d.Set.Encode(), want.Encode())
	}
}

// TestMergeRejects: a mistake in one file is one of all; it has the file and the place in it, and both where there are
// two. testdata/merge.golden has the files, and what is printed of them.
func TestMergeRejects(t *testing.T) {
	const file = "testdata/merge.golden"
	rejected := func(files map[string]string) string {
		dir := directory(t, files)
		d, err := rulefile.Load(dir)
		if err == nil {
			t.Fatalf("taken: %s", d.Set.Encode())
		}
		return strings.ReplaceAll(strings.ReplaceAll(err.Error(), dir+"/", ""), dir, "DIR")
	}
	got := ""
	for _, set := range strings.Split(string(golden.Content(t, file)), "=== ")[1:] {
		set, _, _ = strings.Cut(set, "--- rejected\n")
		files := map[string]string{}
		for _, one := range strings.Split(set, "--- ")[1:] {
			name, text, _ := strings.Cut(one, "\n")
			files[name] = text
		}
		got += "=== " + set + "--- rejected\n" + rejected(files) + "\n"
	}
	golden.Same(t, file, got)

	many := "rules:\n"
	for i := range 600 {
		many += fmt.Sprintf("- { name: r%d, key: [], limit: 1/1m }\n", i)
	}
	long := "#" + strings.Repeat("x", 5<<20) + "\n"
	for want, files := range map[string]map[string]string{
		"rules: has 1200 items; write at most 1000": {"a.yaml": many, "b.yaml": many},
		"has more than 8388608 bytes":               {"a.yaml": long + login, "b.yaml": long + search},
	} {
		if got := rejected(files); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestOwners: what is within its bounds is taken, and a file without bounds may have all.
func TestOwners(t *testing.T) {
	d := fatal.Get(rulefile.Load(directory(t, map[string]string{
		"owners.yaml":   "owners: { a.yaml: { prefix: team-a-, rules: 1 }, platform.yaml: {}, later.yaml: { prefix: l- } }\n",
		"a.yaml":        "rules: [{ name: team-a-login, key: [], limit: 5/1m }]\n",
		"platform.yaml": "regions: { eu: 1 }\n" + search,
	})))(t)
	if d.Set.Len() != 3 || len(d.Set.Regions()) != 1 {
		t.Errorf("%s", d.Set.Encode())
	}
}

// TestExemptOfAFile: an exempt rule lifts the rules of its own file only, or those that it names, of any file.
func TestExemptOfAFile(t *testing.T) {
	d := fatal.Get(rulefile.Load(directory(t, map[string]string{
		"a.yaml": login,
		"b.yaml": search + "- { name: own, mode: exempt, match: { path: /healthz } }\n- { name: named, mode: exempt, exempts: [login] }\n",
	})))(t)
	for name, want := range map[string]string{"own": "[search list]", "named": "[login]"} {
		i, _ := d.Set.Find(name)
		if got := fmt.Sprint(d.Set.Rule(i).Exempts); got != want {
			t.Errorf("%s lifts %s, want %s", name, got, want)
		}
	}
}

// TestModified: a file that has gone makes a directory newer.
func TestModified(t *testing.T) {
	dir := directory(t, map[string]string{"a.yaml": login, "b.yaml": search})
	old, removed := time.Unix(1_500_000_000, 0), time.Unix(1_600_000_000, 0)
	for _, name := range []string{"a.yaml", "b.yaml"} {
		fatal.If(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	fatal.If(t, os.Remove(filepath.Join(dir, "b.yaml")))
	fatal.If(t, os.Chtimes(dir, removed, removed))
	files, err := rulefile.ReadFiles(dir)
	if err != nil || len(files) != 1 || !files[0].Modified.Equal(removed) {
		t.Errorf("%v, %v", files, err)
	}
}

// FuzzMerge: no two files make the reader of a directory fail otherwise than by mistakes that name a file, and the text
// and the compiled form of what it takes mean the same.
func FuzzMerge(f *testing.F) {
	good, bad := golden.Content(f, "testdata/good_full.yaml"), golden.Content(f, "testdata/bad_all_at_once.yaml")
	for _, pair := range [][2][]byte{{good, []byte(search)}, {bad, []byte(login)}, {[]byte(login), []byte(login)}, {[]byte("rules: ["), bad}} {
		f.Add(pair[0], pair[1])
	}
	for _, file := range golden.Files(f, "testdata/bad_*.yaml") {
		f.Add(golden.Content(f, file), []byte(login))
	}
	for _, file := range append(golden.Files(f, "testdata/good_*.yaml"), golden.Files(f, "testdata/good_*.json")...) {
		f.Add(golden.Content(f, file), []byte(`rules: [{ name: zz, key: [{ const: "a\u2028b\x7f\"\\é" }, { const: "null" }, { const: "1" }, { const: on }], limit: 1/1m }]`))
	}
	f.Add([]byte(login), []byte("seed: 1\nrules: [{ name: own, mode: exempt }, { name: x, key: [], limits: [1/1m, 2/1h] }]\n"))
	f.Add([]byte("owners: { b.yaml: { prefix: l, rules: 1 } }"), []byte(login))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		name := "d/a.yaml"
		if bytes.HasPrefix(a, []byte("owners:")) {
			name = "d/owners.yaml"
		}
		d, err := rulefile.Merge("d", []rulefile.File{{Name: name, Data: a}, {Name: "d/b.yaml", Data: b}})
		if err != nil {
			var mistakes strict.Errors
			if d != nil || !errors.As(err, &mistakes) || len(mistakes) == 0 {
				t.Fatalf("document %v with error %#v", d, err)
			}
			for _, m := range mistakes {
				if m.Reason == "" || m.File != "d" && m.File != name && m.File != "d/b.yaml" {
					t.Errorf("%#v", m)
				}
			}
			return
		}
		again, err := rulefile.Parse("text", d.Text)
		if err != nil {
			t.Fatalf("the text %s is rejected: %v", d.Text, err)
		}
		compiled, err := read.JSON(d.Set.Encode())
		if err != nil || again.Version != d.Set.Version || compiled.Version != d.Set.Version {
			t.Errorf("the text %s becomes %s; compiled form %s (%v)", d.Text, again.Encode(), d.Set.Encode(), err)
		}
	})
}
