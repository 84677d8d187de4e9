package rulediff

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/request/requesttest"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// corpus are the documents of testdata/changes.txt, each before and after its change.
func corpus(t *testing.T) (pairs [][2]*rule.Set) {
	t.Helper()
	text := fatal.Get(os.ReadFile("testdata/changes.txt"))(t)
	for _, pair := range strings.Split(string(text), "=== ")[1:] {
		_, rest, _ := strings.Cut(pair, "\n")
		before, rest, _ := strings.Cut(rest, "--- new\n")
		after, _, _ := strings.Cut(rest, "--- changes\n")
		pairs = append(pairs, [2]*rule.Set{parse(t, before), parse(t, after)})
	}
	return pairs
}

// decided is what a set does with a request by one rule, found without package rulediff.
type decided struct {
	hit      bool
	override uint64
	key      string
	cost     int64
	class    string // of a rule that sheds load, whose key decides about no single request
}

func decide(set *rule.Set, name string, r *request.Request, at time.Time) (d decided) {
	var q rule.Request
	var m rule.Matches
	r.Fill(set.Inputs(), &q)
	q.Now, q.Secret = limit.Micros(at.UnixMicro()), new(rule.Secret)
	set.Match(&q, &m)
	for _, h := range m.Hits {
		if set.Rule(h.Rule).Name == name {
			d = decided{true, set.Override(h.Rule, h.Variant), string(h.Key), h.Cost, ""}
		}
	}
	for _, h := range m.Sheds {
		if set.Rule(h.Rule).Name == name {
			d = decided{hit: true, class: h.Class.String()}
		}
	}
	return d
}

// TestSound: of two versions of rules each example is as stated; each request that they treat differently is of a rule
// that is not the same; the way back is the mirror image; and what is compared with itself is the same.
func TestSound(t *testing.T) {
	seen, differ := map[string]int{}, 0
	pairs := corpus(t)
	for i := range len(pairs) {
		for _, versions := range [][2]*rule.Set{pairs[i], {pairs[i][0], pairs[(i+1)%len(pairs)][1]}, {pairs[i][1], pairs[(i+7)%len(pairs)][0]}} {
			d := Compare(t.Context(), versions[0], versions[1], now)
			listed := map[string]bool{}
			for _, r := range d.Rules {
				listed[r.Name] = true
				seen[r.Change]++
				for _, c := range r.Changes {
					seen[c.Effect]++
					if seen[c.What]++; c.Example != nil {
						confirm(t, versions, &r, &c)
					}
				}
			}
			w := requesttest.Of(uint64(i), versions[:]...)
			for range 100 {
				q, at := w.Request(), now.AddDate(10*w.IntN(2), 0, 0)
				for _, set := range versions {
					for i := range set.Len() {
						name := set.Rule(i).Name
						a, b := decide(versions[0], name, q, at), decide(versions[1], name, q, at)
						if a == b {
							continue
						}
						if differ++; !listed[name] {
							t.Fatalf("%s is the same, and at %v %s is %+v before and %+v after:\n%s\n%s\n%s", name, at, q, a, b, versions[0].Encode(), versions[1].Encode(), d)
						}
					}
				}
			}
			if back := Compare(t.Context(), versions[1], versions[0], now); sketch(back, true) != sketch(d, false) {
				t.Fatalf("%s\nand back:\n%s\n%s\n%s", d, back, versions[0].Encode(), versions[1].Encode())
			}
			if same := Compare(t.Context(), versions[0], versions[0], now); !same.Same() || same.Changed+same.Undecided > 0 {
				t.Fatalf("the same rules:\n%s", same)
			}
		}
	}
	for _, what := range []string{changed, added, removed, undecided, wider, narrower, override, keyed, classed, stricter, looser} {
		if seen[what] == 0 || differ < 1000 {
			t.Errorf("%v, and %d requests are treated differently: it compares too little", seen, differ)
		}
	}
}

// confirm checks an example.
func confirm(t *testing.T, versions [2]*rule.Set, r *Rule, c *Difference) {
	a, b := decide(versions[0], r.Name, c.Example, now), decide(versions[1], r.Name, c.Example, now)
	ok := false
	switch c.What {
	case wider:
		ok = !a.hit && b.hit
	case narrower:
		ok = a.hit && !b.hit
	case override:
		ok = a.hit && b.hit && a.override != b.override
	case classed:
		ok = a.hit && b.hit && a.class != b.class && a.class == c.Old && b.class == c.New
	case keyed:
		ok = a.hit && b.hit && a.key != b.key && (a.key == c.Old && b.key == c.New || strings.HasPrefix(a.key+b.key, `\h`))
	}
	if !ok {
		t.Fatalf("%s %s is %+v before and %+v after for %s:\n%s\n%s", r.Name, c.What, a, b, c.Example, versions[0].Encode(), versions[1].Encode())
	}
}

// sketch is a comparison without what depends on its direction, turned round or not.
func sketch(d *Diff, turn bool) string {
	turned := map[string]string{}
	if turn {
		turned = map[string]string{added: removed, removed: added, wider: narrower, narrower: wider, stricter: looser, looser: stricter}
	}
	var rules []string
	for _, r := range d.Rules {
		var changes []string
		for _, c := range r.Changes {
			if turn {
				c.Old, c.New = c.New, c.Old
			}
			switch c.What {
			case unreached:
			case undecided:
				changes = append(changes, c.What)
			default:
				changes = append(changes, fmt.Sprintf("%q %q %q %q %v", cmp.Or(turned[c.What], c.What), c.Old, c.New, cmp.Or(turned[c.Effect], c.Effect), c.Example))
			}
		}
		slices.Sort(changes)
		rules = append(rules, fmt.Sprintln(r.Name, cmp.Or(turned[r.Change], r.Change), changes))
	}
	slices.Sort(rules)
	return fmt.Sprint(rules)
}
