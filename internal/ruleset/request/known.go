package request

import (
	"slices"

	"github.com/weirlimit/weir/internal/rule"
)

// Known are the inputs that are known of a request of which not all are, such as one of an access log, each by its word:
// method, host, path, client_ip, san, route, region, "header x-tier", "claim sub", "label tier". What is known and the
// request does not have is absent. nil: all inputs are known.
type Known map[string]bool

// Lacks are the inputs that a rule looks at and that are not known, each once.
func (k Known) Lacks(r *rule.Rule) (words []string) {
	if k == nil {
		return nil
	}
	look := func(s rule.Source) {
		word := Input(s)
		if word != "" && !k[word] && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	eachSource(&r.Match, look)
	for _, part := range r.Key {
		for _, s := range part {
			look(s)
			hops(s.TrustedHops, look)
		}
	}
	for i := range r.Limits {
		eachSource(&r.Limits[i].When, look)
	}
	for _, c := range r.ShedClasses() {
		eachSource(&c.When, look)
	}
	if r.Cost.Header != "" {
		look(rule.Source{From: rule.FromHeader, Name: r.Cost.Header})
	}
	return words
}

// eachSource calls look with each source that a condition looks at.
func eachSource(m *rule.Match, look func(rule.Source)) {
	for _, of := range []struct {
		values int
		from   rule.From
	}{
		{len(m.Methods), rule.FromMethod}, {len(m.Hosts), rule.FromHost}, {len(m.Paths), rule.FromPath}, {len(m.Regions), rule.FromRegion}, {len(m.Clients), rule.FromClientIP},
	} {
		if of.values > 0 {
			look(rule.Source{From: of.from})
		}
	}
	hops(m.TrustedHops, look)
	for _, f := range m.Fields() {
		for _, n := range *f.List {
			look(rule.Source{From: f.From, Name: n.Name})
		}
	}
	for i := range m.Not {
		eachSource(&m.Not[i], look)
	}
}

// hops calls look with what a client behind trusted hops is read from, beside its address.
func hops(trusted int, look func(rule.Source)) {
	if trusted > 0 {
		look(rule.Source{From: rule.FromHeader, Name: "x-forwarded-for"})
	}
}

// Input is the word of what a source is read from; of [rule.FromConst] it is empty.
func Input(s rule.Source) string {
	switch s.From {
	case rule.FromConst:
		return ""
	case rule.FromQuery, rule.FromSegment:
		return rule.FromPath.String()
	case rule.FromCookie:
		return HeaderInput("cookie")
	case rule.FromHeader:
		return HeaderInput(s.Name)
	case rule.FromClaim, rule.FromLabel:
		return s.From.String() + " " + s.Name
	}
	return s.From.String()
}

// HeaderInput is the word of a header, whose name is in lower case.
func HeaderInput(name string) string {
	if name == "host" || name == ":authority" {
		return rule.FromHost.String()
	}
	return rule.FromHeader.String() + " " + name
}

// ClaimInput is the word of a claim.
func ClaimInput(name string) string { return rule.FromClaim.String() + " " + name }
