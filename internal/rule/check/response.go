package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// ContentTypeForms are the types that the body of a rejection may have.
const ContentTypeForms = "application/json, application/problem+json, text/plain or text/html, perhaps with ; charset=utf-8"

// response checks what clients see of a rule.
func (c *checker) response(r *rule.Rule) {
	c.reject(r.Headers&rule.XRateLimit == rule.XRateLimit, "headers", "has x-draft03 and x-unix, which set the same headers; write one of them")
	f := &r.Rejection
	if f.Body == "" {
		c.reject(f.ContentType != "", "rejection.content_type", "is only for a body; write body, or leave it out", "rejection.body")
		return
	}
	kind := slices.Index(rejection.ContentTypes[:], strings.TrimSuffix(f.ContentType, rejection.Charset))
	switch {
	case f.ContentType == "":
		c.add("rejection.content_type", "is missing; write what body is: "+ContentTypeForms)
	case kind < 0:
		c.add("rejection.content_type", strict.Quote(f.ContentType)+" is unknown; write "+ContentTypeForms)
	}
	c.body(f, r.Headers == rule.HeadersOff, kind >= 0 && kind < rejection.JSONTypes)
}

// body checks the body of a rejection.
func (c *checker) body(f *rejection.Form, hidden, json bool) {
	if n := len(f.Body); n > rejection.MaxBody {
		c.add("rejection.body", "has "+strconv.Itoa(n)+" bytes; write at most "+strconv.Itoa(rejection.MaxBody))
		return
	}
	placeholders := 0
	for _, name, rest := rejection.Cut(f.Body); name != ""; _, name, rest = rejection.Cut(rest) {
		placeholders++
		switch name {
		case rejection.RetryAfter:
		case rejection.Rule, rejection.Limit:
			c.reject(hidden, "rejection.body", "has {"+name+"}, which headers: off hides; leave it out, or write headers: [draft]", "headers")
		default:
			c.add("rejection.body", "has {"+name+"}, which is unknown; write {rule}, {retry_after} or {limit}")
			return
		}
	}
	c.atMost("rejection.body", placeholders, rejection.MaxPlaceholders, "placeholders")
	if !json {
		return
	}
	// In place of a name is a letter, which is not JSON outside of a string.
	if _, err := strict.ParseJSON(f.AppendBody(nil, rejection.Values{Rule: "z"})); err != nil {
		c.add("rejection.body", "is not JSON: "+err.Error()+"; correct it, or write content_type: text/plain", "rejection.content_type")
	}
}

// actual checks what responses may state as the cost.
func (c *checker) actual(cost *rule.Cost) {
	a := &cost.Actual
	switch path := "cost.actual." + a.From.String(); a.From {
	case settle.FromMetadata:
		c.nameOf(rule.FromMetadata, path, a.Name)
	case settle.FromBody:
		other := func(r rune) bool { return !rule.IsNameRune(r) && r != '.' }
		c.wrong(len(a.Name) > rule.MaxText || strings.Contains("."+a.Name+".", "..") || strings.ContainsFunc(a.Name, other), path, a.Name,
			" is no path; write the names that lead to a number in JSON, of letters, digits, - and _, with dots between them, such as usage.total_tokens")
	default:
		c.nameOf(rule.FromHeader, path, a.Name)
	}
	c.reject(a.Max > 0 && a.Max < cost.Most(), "cost.max", strconv.FormatInt(a.Max, 10)+" is less than the estimate may be; write at least "+
		strconv.FormatInt(cost.Most(), 10)+", or lower the estimate", "cost.estimate")
	c.period("cost.max_stream", a.MaxStream, maxStreamRange)
}

// count checks which responses count.
func (c *checker) count(count *settle.Count) {
	for i, status := range count.Status {
		class := ""
		if status >= 100 && slices.Contains(count.Status, status/100) {
			class = settle.Classes[status/100]
		}
		c.reject(class != "", "count.status", strconv.Itoa(status)+" is in "+class+"; leave it out")
		c.reject(class == "" && i > 0 && status == count.Status[i-1], "count.status", "has a status twice; leave it out")
	}
	for i, status := range count.GRPCStatus {
		c.reject(i > 0 && status == count.GRPCStatus[i-1], "count.grpc_status", "has "+strconv.Itoa(status)+" twice; leave it out")
	}
}
