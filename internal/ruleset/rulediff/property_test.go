package rulediff

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// corpus are the documents of testdata/changes.txt, each before and after its change.
func corpus(t *testing.T) (pairs [][2]*rule.Set) {
	t.Helper()
	text, err := os.ReadFile("testdata/changes.txt")
	fatal.If(t, err)
	for _, pair := range strings.Split(string(text), "=== ")[1:] {
		_, rest, _ := strings.Cut(pair, "\n")
		before, rest, _ := strings.Cut(rest, "--- new\n")
		after, _, _ := strings.Cut(rest, "--- changes\n")
		pairs = append(pairs, [2]*rule.Set{parse(t, before), parse(t, after)})
	}
	return pairs
}

// words are what requests of two versions of rules are made of: all texts of the rules, and some others.
type words struct {
	*rand.Rand
	all   []string
	names map[rule.From][]string // of headers, claims, cookies, query parameters and labels
}

var (
	text = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	meta = regexp.MustCompile(`\{\w+\}|\[.*?\]\+?|\.\*|\\.|[()|?*+$^]`)
)

func wordsOf(versions [2]*rule.Set, seed uint64) *words {
	w := &words{rand.New(rand.NewPCG(seed, 1)), []string{"", "a", "zz", "GET", "/", "/a", "10.0.0.1", "eu"}, map[rule.From][]string{}}
	for _, set := range versions {
		for _, found := range text.FindAllStringSubmatch(string(set.Encode()), -1) {
			w.all = append(w.all, found[1], meta.ReplaceAllString(found[1], "a"))
		}
		for i := range set.Len() {
			r := set.Rule(i)
			for _, part := range r.Key {
				for _, source := range part {
					w.names[source.From] = append(w.names[source.From], source.Name)
				}
			}
			w.of(r.Match)
			for _, v := range r.Limits {
				w.of(v.When)
			}
			if r.Shed != nil {
				for _, c := range r.Shed.Classes {
					w.of(c.When)
				}
			}
		}
	}
	return w
}

// of takes the names of a condition.
func (w *words) of(m rule.Match) {
	for _, f := range m.Fields() {
		for _, named := range *f.List {
			w.names[f.From] = append(w.names[f.From], named.Name)
		}
	}
	for _, not := range m.Not {
		w.of(not)
	}
}

// one is a word that begins so.
func (w *words) one(begin string) string {
	for range 50 {
		if word := w.all[w.IntN(len(w.all))]; strings.HasPrefix(word, begin) {
			return word
		}
	}
	return begin
}

// each gives most names of a kind a word.
func (w *words) each(from rule.From) map[string]string {
	all := map[string]string{}
	for _, name := range w.names[from] {
		if w.IntN(3) > 0 {
			all[name] = w.one("")
		}
	}
	return all
}

// joined are names and words, such as "a=b&c=d".
func joined(all map[string]string, separator string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, name+"="+all[name])
	}
	return strings.Join(pairs, separator)
}

func (w *words) request() *request.Request {
	r := &request.Request{Method: w.one("GET"), Host: w.one(""), Headers: w.each(rule.FromHeader), Claims: w.each(rule.FromClaim), Labels: w.each(rule.FromLabel)}
	if w.IntN(2) == 0 {
		r.Method = w.one("P")
	}
	r.Path = w.one("/") + []string{"", "", "a", "/", "/a"}[w.IntN(5)] + "?" + joined(w.each(rule.FromQuery), "&")
	r.Headers["cookie"] = joined(w.each(rule.FromCookie), "; ")
	address := func() string {
		word := w.one([]string{"1", "2", ""}[w.IntN(3)])
		if p, ok := ip.ParsePrefix(word); ok {
			word, _, _ = strings.Cut(p.String(), "/")
		}
		return word
	}
	r.Client, r.Headers["x-forwarded-for"] = address(), address()+","+address()
	if r.Region = w.one(""); r.Region == "" {
		r.Labels = nil
	}
	return r
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
					if seen[c.What]++; c.Example != nil {
						confirm(t, versions, &r, &c)
					}
				}
			}
			w := wordsOf(versions, uint64(i))
			for range 100 {
				q, at := w.request(), now.AddDate(10*w.IntN(2), 0, 0)
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
	for _, what := range []string{changed, added, removed, undecided, wider, narrower, override, keyed, classed} {
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
		turned = map[string]string{added: removed, removed: added, wider: narrower, narrower: wider}
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
				changes = append(changes, fmt.Sprintf("%q %q %q %v", cmp.Or(turned[c.What], c.What), c.Old, c.New, c.Example))
			}
		}
		slices.Sort(changes)
		rules = append(rules, fmt.Sprintln(r.Name, cmp.Or(turned[r.Change], r.Change), changes))
	}
	slices.Sort(rules)
	return fmt.Sprint(rules)
}
