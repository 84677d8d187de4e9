package rulefile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
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
	want := fatal.Get(rulefile.Parse("f", []byte(`
client_ip: { trusted_hops: 1 }
regions: { eu: 3, us: 1 }
rules:
- { name: login, key: [client_ip], limit: 5/1m }
- { name: search, key: [client_ip], limit: 9/1m }
- { name: list, key: [], limit: 7/1m }
`)))(t)
	if d.Set.Content != want.Content {
		t.Errorf("got\n%s\nwant\n%s", d.Set.Encode(), want.Encode())
	}
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
}

// TestMergeRejects: a mistake in one file is one of all; it has the file and the place in it, and both where there are
// two.
func TestMergeRejects(t *testing.T) {
	const team = "rules: [{ name: team-a-login, key: [], limit: 5/1m }]\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string // DIR/ is left out
	}{
		"one file": {map[string]string{"a.yaml": login, "b.yaml": search + "- { name: x, key: [], limit: 5/min }\n"},
			`b.yaml:4:30: rules[2].limit: "5/min" is not a limit`},
		"name taken": {map[string]string{"a.yaml": login, "b.yaml": search + "- { name: login, key: [], limit: 5/1m }\n"},
			`b.yaml:4:11: rules[2].name: "login" is taken; write a name that no other rule has; the first is rules[0].name (a.yaml:1)`},
		"name taken in the same file": {map[string]string{"a.yaml": login, "b.yaml": search + "- { name: list, key: [], limit: 5/1m }\n"},
			`b.yaml:4:11: rules[2].name: "list" is taken; write a name that no other rule has; the first is rules[1].name (line 3)`},
		"stated twice": {map[string]string{"a.yaml": "regions: { eu: 1 }\n" + login, "b.yaml": search + "regions: { eu: 2 }\n"},
			"b.yaml:4:1: regions: is not what a.yaml:1 states; it concerns the rules of all files, so write it in one of them"},
		"stated wrong": {map[string]string{"a.yaml": login, "b.yaml": search + "regions: { eu: x }\n"},
			`b.yaml:4:16: regions.eu: "x" is a string`},
		"unknown field": {map[string]string{"a.yaml": login, "b.yaml": search + "colour: red\n"}, "b.yaml:4:1: colour: unknown field"},
		"no YAML":       {map[string]string{"a.yaml": "rules: [\n", "b.yaml": search}, "a.yaml:"},
		"no YAML in one, a mistake in another": {map[string]string{"a.yaml": "rules: [\n", "b.yaml": search + "- { name: x }\n"},
			"b.yaml:4:3: rules[2].key: is missing"},
		"a list":         {map[string]string{"a.yaml": "- 1\n", "b.yaml": search}, "a.yaml:1:1: is a list; write a mapping with rules"},
		"rules no list":  {map[string]string{"a.yaml": "rules: {}\n", "b.yaml": search}, "a.yaml:1:1: rules: is a mapping; write a list; [] for none"},
		"no rules":       {map[string]string{"a.yaml": "regions: { eu: 1 }\n"}, "rules: is missing; write a list of rules; [] for none"},
		"too many rules": {map[string]string{"a.yaml": many(600), "b.yaml": many(600)}, "rules: has 1200 items; write at most 1000"},
		"no file":        {map[string]string{"a.txt": login}, "has no file *.yaml, *.yml or *.json; for no rules write one with rules: []"},
		"prefix": {map[string]string{"owners.yaml": "owners:\n  a.yaml: { prefix: team-a- }\n", "a.yaml": login},
			`a.yaml:1:17: rules[0].name: "login" does not begin with team-a-, as names in this file must (owners.yaml:2)`},
		"number": {map[string]string{"owners.yaml": "owners:\n  b.yaml: { rules: 1 }\n", "b.yaml": search},
			`b.yaml:1:1: rules: has 2 rules; write at most 1 (owners.yaml:2)`},
		"prefix of what is lifted": {map[string]string{"owners.yaml": "owners: { a.yaml: { prefix: team-a- }, b.yaml: {} }\n", "b.yaml": login,
			"a.yaml": "rules: [{ name: team-a-x, mode: exempt, exempts: [login] }]\n"},
			`a.yaml:1:51: rules[0].exempts[0]: "login" does not begin with team-a-`},
		"lifts nothing": {map[string]string{"a.yaml": login, "b.yaml": "rules: [{ name: x, mode: exempt }]\n"},
			"b.yaml:1:20: rules[0].mode: lifts nothing, as this file has no other rule; write exempts and the names of rules"},
		"lifts an unknown rule": {map[string]string{"a.yaml": login, "b.yaml": search + "- { name: x, mode: exempt, exempts: [nothing] }\n"},
			`b.yaml:4:38: rules[2].exempts[0]: "nothing" is not a rule with a limit`},
		"seeds": {map[string]string{"a.yaml": "seed: 1\n" + login, "b.yaml": search + "seed: 2\n"}, "b.yaml:4:1: seed: is not what a.yaml:1 states"},
		"prefix of a candidate": {map[string]string{"owners.yaml": "owners: { a.yaml: { prefix: team-a- }, b.yaml: {} }\n", "b.yaml": login,
			"a.yaml": "candidates: [{ rule: login, limit: 3/1m }]\n"},
			`a.yaml:1:22: candidates[0].rule: "login" does not begin with team-a-`},
		"two candidates of a rule": {map[string]string{"a.yaml": "candidates: [{ rule: login, limit: 3/1m }]\n" + login, "b.yaml": search + "candidates: [{ rule: login, limit: 4/1m }]\n"},
			"b.yaml:4:22: candidates[0].rule: "},
		"five candidates": {map[string]string{"a.yaml": many(5) + fiveCandidates, "b.yaml": "rules: []\n"}, "candidates: has 5 items; write at most 4"},
		"for all": {map[string]string{"owners.yaml": "owners: { a.yaml: { prefix: team-a- } }\n", "a.yaml": team + "regions: { eu: 1 }\n"},
			"a.yaml:2:1: regions: concerns the rules of all files; write it in a file without a prefix (owners.yaml:1)"},
		"no owner": {map[string]string{"owners.yaml": "owners: { a.yaml: {} }\n", "a.yaml": login, "b.yaml": search},
			"b.yaml:1:1: owners.yaml does not have this file; write its bounds there, b.yaml: { prefix: team-a-, rules: 20 }, or {} for none"},
		"owners wrong":   {map[string]string{"owners.yaml": "owners: { a.yaml: { prefix: 7, rule: 3 } }\n", "a.yaml": login}, "owners.yaml:1:32: owners[\"a.yaml\"].rule: unknown field; did you mean rules?"},
		"owners a list":  {map[string]string{"owners.yaml": "owners: [a.yaml]\n", "a.yaml": login}, "owners.yaml:1:1: owners: is a list; write the files and their bounds"},
		"owners unknown": {map[string]string{"owners.yaml": "owner: {}\n", "a.yaml": login}, "owners.yaml:1:1: owner: unknown field; did you mean owners?"},
		"more than 8 MiB": {map[string]string{"a.yaml": "#" + strings.Repeat("x", 5<<20) + "\n" + login, "b.yaml": "#" + strings.Repeat("x", 5<<20) + "\n" + search},
			"has more than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, c.files)
			d, err := rulefile.Load(dir)
			if err == nil {
				t.Fatalf("taken: %s", d.Set.Encode())
			}
			if got := strings.ReplaceAll(err.Error(), dir+"/", ""); !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

const fiveCandidates = "candidates: [{ rule: r0, limit: 3/1m }, { rule: r1, limit: 3/1m }, { rule: r2, limit: 3/1m }, { rule: r3, limit: 3/1m }, { rule: r4, limit: 3/1m }]\n"

func many(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "- { name: r%d, key: [], limit: 1/1m }\n", i)
	}
	return b.String()
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
