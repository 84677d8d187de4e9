package request

import (
	"slices"

	"github.com/weirlimit/weir/internal/rule"
)

// Known are the inputs that are known of a request of which not all are, such as one of an access log, each by its word:
// method, host, path, client_ip, san, route, region, "header x-tier", "claim sub", "metadata NAMESPACE:KEY", "label tier". What is known and the
// request does not have is absent. nil: all inputs are known.
type Known map[string]bool

// Missing are the inputs that a rule looks at and that are not known, each once.
func (k Known) Missing(r *rule.Rule) (words []string) {
	if k == nil {
		return nil
	}
	look := func(word string) {
		if word != "" && !k[word] && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	r.EachSource(func(s rule.Source) {
		if look(Input(s)); s.TrustedHops > 0 {
			look(HeaderInput("x-forwarded-for"))
		}
	})
	return words
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
	case rule.FromClaim, rule.FromMetadata, rule.FromLabel:
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

// MetadataInput is the word of metadata, which has the name NAMESPACE:KEY.
func MetadataInput(name string) string { return rule.FromMetadata.String() + " " + name }
