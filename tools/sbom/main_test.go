package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The list is what Go itself has written into the program, and twice the same.
func TestListIsWhatIsCompiledIn(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	const pkg = "github.com/weirlimit/weir/tools/release"
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"std " + strings.TrimPrefix(info.GoVersion, "go")}
	for _, d := range info.Deps {
		want = append(want, d.Path+" "+d.Version)
	}
	if len(want) < 3 {
		t.Fatalf("the program has only %v", want)
	}
	slices.Sort(want)
	var texts [2]string
	for i := range texts {
		if err := run([]string{program, pkg}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(program + ".cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Errorf("two lists of one program differ:\n%s\n%s", texts[0], texts[1])
	}
	var d document
	if err := json.Unmarshal([]byte(texts[0]), &d); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.Components {
		got = append(got, c.Name+" "+c.Version)
		if want := "pkg:golang/" + c.Name + "@"; !strings.HasPrefix(c.PURL, want) || c.Ref != c.PURL {
			t.Errorf("%s has the purl %q and the reference %q", c.Name, c.PURL, c.Ref)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the list has %v, the program %v", got, want)
	}
}

// A program that is not there has no list.
func TestNoProgram(t *testing.T) {
	if err := run([]string{filepath.Join(t.TempDir(), "none"), "."}); err == nil {
		t.Error("a list of nothing")
	}
}

// A program that serves the dashboard has its packages, too.
func TestListHasWhatIsServed(t *testing.T) {
	t.Chdir("../..")
	all, err := compiledIn("./dashboard")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"preact", "@preact/signals", "uplot", "codemirror", "@lezer/yaml"} {
		i := slices.IndexFunc(all, func(c component) bool { return c.Name == name })
		if i < 0 || all[i].Version == "" || all[i].PURL != "pkg:npm/"+strings.Replace(name, "@", "%40", 1)+"@"+all[i].Version {
			t.Errorf("%s is not in the list: %v", name, all)
		}
	}
	if slices.ContainsFunc(all, func(c component) bool { return c.Name == "axe-core" || c.Name == "typescript" }) {
		t.Errorf("the list has what only tests and the build use: %v", all)
	}
}
