package explain

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/request/requesttest"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/golden"
)

// corpus are the rules in testdata of packages rulediff and rulefile.
func corpus(t *testing.T) (sets []*rule.Set) {
	t.Helper()
	texts := regexp.MustCompile(`(?m)^(===|---) .*$`).Split(string(golden.Content(t, "../rulediff/testdata/changes.txt")), -1)
	for _, file := range golden.Files(t, "../rulefile/testdata/good_*.yaml") {
		texts = append(texts, string(golden.Content(t, file)))
	}
	for _, text := range texts {
		if set, err := rulefile.Parse("rules", []byte(text)); err == nil { // else it is a list of changes
			sets = append(sets, set)
		}
	}
	return sets
}

// stated is a request at a time.
type stated struct {
	request.Request
	now limit.Micros
}

func (s *stated) fill(in *rule.Inputs) *rule.Request {
	q := new(rule.Request)
	s.Fill(in, q)
	q.Method, q.PoP, q.Now = s.Method, &rule.PoP{Region: s.Region, Labels: s.Labels}, s.now
	return q
}

// without is the request without an input.
func (s *stated) without(word string) {
	kind, name, _ := strings.Cut(word, " ")
	switch kind {
	case "header":
		delete(s.Headers, name)
	case "claim":
		delete(s.Claims, name)
	case "metadata":
		delete(s.Metadata, name)
	case "label":
		delete(s.Labels, name)
	default:
		*map[string]*string{"method": &s.Method, "host": &s.Host, "path": &s.Path, "client_ip": &s.Client, "san": &s.SAN, "route": &s.Route, "region": &s.Region}[kind] = ""
	}
}

// Where not all of a request is known, what explain says of it is so whatever the rest is.
func TestKnown(t *testing.T) {
	each, count, sets := 1000, map[string]int{}, corpus(t)
	if testing.Short() {
		each = 100
	}
	for _, set := range sets {
		compare(t, set, each, count)
	}
	t.Logf("%d sets: %v", len(sets), count)
	for _, what := range []string{"unknown", "applies", "failed", "exempt", "unlimited"} {
		if count[what] == 0 {
			t.Errorf("nothing is known as %s: %v", what, count)
		}
	}
}

func compare(t *testing.T, set *rule.Set, requests int, count map[string]int) {
	w, dice := requesttest.Of(1, set), rand.New(rand.NewPCG(1, 2))
	for range requests {
		s := &stated{*w.Request(), limit.Second * limit.Micros(dice.IntN(2)*2_000_000_000)}
		part, known := *s, request.Known{}
		part.Headers, part.Claims, part.Metadata, part.Labels = maps.Clone(s.Headers), maps.Clone(s.Claims), maps.Clone(s.Metadata), maps.Clone(s.Labels)
		for _, word := range w.Inputs() {
			if known[word] = dice.IntN(5) > 0; !known[word] {
				part.without(word)
			}
		}
		whole := Rules(set, nil, s.fill)
		for _, v := range Rules(set, known, part.fill) {
			count[holds(t, &v, whole, s, set.Seed())]++
		}
		if t.Failed() {
			t.Fatalf("rules %s\nrequest %+v, known %v", set.Encode(), s, known)
		}
	}
}

// holds checks what is said of a rule by a part of a request against what is so of the whole, and returns what that is.
func holds(t *testing.T, p *Verdict, whole []Verdict, s *stated, seed uint64) (what string) {
	i := slices.IndexFunc(whole, func(v Verdict) bool { return v.Rule.Name == p.Rule.Name })
	w, right := &whole[i], true
	switch {
	case p.Unknown():
		what = "unknown"
	case p.Failed != "":
		what = "failed"
		if right = w.Failed == p.Failed; !right {
			for _, c := range clauses(p.Rule) {
				e := explainer{seed: seed, request: s.fill}
				right = right || c.name == p.Failed && len(e.match([]rule.Rule{c.alone})) == 0
			}
		}
	case p.ExemptBy != "":
		what = "exempt"
		by := slices.IndexFunc(whole, func(v Verdict) bool { return v.Rule.Name == p.ExemptBy })
		right = whole[by].Applies() && (w.ExemptBy != "" || w.Failed != "")
	case p.Unlimited:
		what = "unlimited"
		right = w.Unlimited && w.Override == p.Override
	case p.Hit == nil:
		what = "applies"
		right = w.Applies()
	default:
		what = "applies"
		right = w.Hit != nil && slices.Equal(w.Hit.Key, p.Hit.Key) && p.Hit.Variant == w.Hit.Variant && p.Override == w.Override && p.Hit.Cost == w.Hit.Cost
	}
	if !right {
		t.Errorf("%s: %+v, and of the whole request %+v", what, p, w)
	}
	return what
}
