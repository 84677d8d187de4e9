package rulediff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/request/requesttest"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// now is when versions are compared.
var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func parse(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, err := rulefile.Parse("rules", []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return set
}

// pairs are the names and documents of testdata/changes.txt.
func pairs(text string) (all [][3]string) {
	for _, pair := range strings.Split(text, "=== ")[1:] {
		name, rest, _ := strings.Cut(pair, "\n")
		before, rest, _ := strings.Cut(rest, "--- new\n")
		after, _, _ := strings.Cut(rest, "--- changes\n")
		all = append(all, [3]string{name, before, after})
	}
	return all
}

// compare compares two documents.
func compare(t *testing.T, before, after *rule.Set) *Diff {
	t.Helper()
	return fatal.Get(Compare(t.Context(), before, after, now))(t)
}

// TestChanges compares the pairs of testdata/changes.txt.
func TestChanges(t *testing.T) {
	got := ""
	for _, p := range pairs(string(golden.Content(t, changes))) {
		got += "=== " + p[0] + "\n" + p[1] + "--- new\n" + p[2] + "--- changes\n" + compare(t, parse(t, p[1]), parse(t, p[2])).String()
	}
	golden.Same(t, changes, got)
}

const changes = "testdata/changes.txt"

// TestPage: the example of docs/cli.md prints what stands there.
func TestPage(t *testing.T) {
	_, section, _ := strings.Cut(string(golden.Content(t, "../../../docs/cli.md")), "\n## Comparing rules\n")
	blocks := regexp.MustCompile("(?s)```(?:yaml)?\n(.*?)```").FindAllStringSubmatch(section, 3)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want two files and their comparison", len(blocks))
	}
	if got := compare(t, parse(t, blocks[0][1]), parse(t, blocks[1][1])).String(); got != blocks[2][1] {
		t.Errorf("got\n%s\nwant\n%s", got, blocks[2][1])
	}
}

// hits are the rules that apply to a request, each with its override and key, or its class.
func hits(set *rule.Set, r *request.Request, at time.Time) map[string]string {
	var q rule.Request
	var m rule.Matches
	r.Fill(set.Inputs(), &q)
	q.Now, q.Secret = limit.Micros(at.UnixMicro()), new(rule.Secret)
	set.Match(&q, &m)
	all := map[string]string{}
	for _, h := range m.Hits {
		all[set.Rule(h.Rule).Name] = fmt.Sprint(set.Override(h.Rule, h.Variant), " ", string(h.Key), h.Cost)
	}
	for _, h := range m.Sheds {
		all[set.Rule(h.Rule).Name] = h.Class.String()
	}
	return all
}

// exempts reports whether a set has an exempt rule of a name.
func exempts(set *rule.Set, name string) bool {
	i, found := set.Find(name)
	return found && set.Rule(i).Mode == rule.Exempt
}

// TestSound: if two versions treat a request differently by a rule, that rule or an exempt one is among the changes; the way back
// has the opposite effects; and what is compared with itself is the same.
func TestSound(t *testing.T) {
	var sets [][2]*rule.Set
	for _, p := range pairs(string(golden.Content(t, changes))) {
		sets = append(sets, [2]*rule.Set{parse(t, p[1]), parse(t, p[2])})
	}
	differ := 0
	for i := range sets {
		for _, versions := range [][2]*rule.Set{sets[i], {sets[i][0], sets[(i+1)%len(sets)][1]}, {sets[i][1], sets[(i+7)%len(sets)][0]}} {
			d := compare(t, versions[0], versions[1])
			listed, lifting := map[string]bool{}, false // an exempt rule changes
			for _, r := range d.Rules {
				listed[r.Name] = true
				for version, example := range []*request.Request{r.AppliedTo, r.AppliesTo} {
					if example == nil {
						continue
					}
					_, in := hits(versions[version], example, now)[r.Name]
					if _, other := hits(versions[1-version], example, now)[r.Name]; other || !in && !exempts(versions[version], r.Name) {
						t.Fatalf("%s is no example of version %d of %s", example, version, r.Name)
					}
				}
				lifting = lifting || exempts(versions[0], r.Name) || exempts(versions[1], r.Name)
			}
			w := requesttest.Of(uint64(i), versions[:]...)
			for range 100 {
				q, at := w.Request(), now.AddDate(10*w.IntN(2), 0, 0)
				a, b := hits(versions[0], q, at), hits(versions[1], q, at)
				for _, name := range append(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))...) {
					if a[name] == b[name] {
						continue
					}
					if differ++; !listed[name] && !lifting {
						t.Fatalf("%s is the same, and at %v %s is %+v before and %+v after:\n%s", name, at, q.Path, a, b, d)
					}
				}
			}
			back := compare(t, versions[1], versions[0])
			if back.Added != d.Removed || back.Removed != d.Added || back.Stricter != d.Looser || back.Looser != d.Stricter {
				t.Fatalf("%s\nand back:\n%s", d, back)
			}
			if same := compare(t, versions[0], versions[0]); !same.Same() {
				t.Fatalf("the same rules:\n%s", same)
			}
		}
	}
	if differ < 1000 {
		t.Errorf("%d requests are treated differently: it compares too little", differ)
	}
}
