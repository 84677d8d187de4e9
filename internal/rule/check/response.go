package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/refusal"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// ContentTypeForms are the types that the body of a refusal may have.
const ContentTypeForms = "application/json, application/problem+json, text/plain or text/html, perhaps with ; charset=utf-8"

// response checks what clients see of a rule.
func (c *checker) response(r *rule.Rule) {
	c.refuse(r.Headers&rule.XRateLimit == rule.XRateLimit, "headers", "has x-draft03 and x-unix, which set the same headers; write one of them")
	f := &r.Refusal
	if f.Body == "" {
		c.refuse(f.ContentType != "", "refusal.content_type", "is only for a body; write body, or leave it out", "refusal.body")
		return
	}
	kind := slices.Index(refusal.ContentTypes[:], strings.TrimSuffix(f.ContentType, refusal.Charset))
	switch {
	case f.ContentType == "":
		c.add("refusal.content_type", "is missing; write what body is: "+ContentTypeForms)
	case kind < 0:
		c.add("refusal.content_type", strict.Quote(f.ContentType)+" is unknown; write "+ContentTypeForms)
	}
	c.body(f, r.Headers == rule.HeadersOff, kind >= 0 && kind < refusal.JSONTypes)
}

// body checks the body of a refusal.
func (c *checker) body(f *refusal.Form, hidden, json bool) {
	if n := len(f.Body); n > refusal.MaxBody {
		c.add("refusal.body", "has "+strconv.Itoa(n)+" bytes; write at most "+strconv.Itoa(refusal.MaxBody))
		return
	}
	placeholders := 0
	for _, name, rest := refusal.Cut(f.Body); name != ""; _, name, rest = refusal.Cut(rest) {
		placeholders++
		switch name {
		case refusal.RetryAfter:
		case refusal.Rule, refusal.Limit:
			c.refuse(hidden, "refusal.body", "has {"+name+"}, which headers: off hides; leave it out, or write headers: [draft]", "headers")
		default:
			c.add("refusal.body", "has {"+name+"}, which is unknown; write {rule}, {retry_after} or {limit}")
			return
		}
	}
	c.atMost("refusal.body", placeholders, refusal.MaxPlaceholders, "placeholders")
	if !json {
		return
	}
	// In place of a name is a letter, which is not JSON outside of a string.
	if _, err := strict.ParseJSON(f.AppendBody(nil, refusal.Values{Rule: "z"})); err != nil {
		c.add("refusal.body", "is not JSON: "+err.Error()+"; correct it, or write content_type: text/plain", "refusal.content_type")
	}
}
