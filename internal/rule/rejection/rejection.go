// Package rejection makes the response to a request that a rule rejects: status and body.
//
// An operator writes the body, and its length is bounded. The values of its placeholders have only letters, digits, '-', '_',
// '@' and '/', so they need no escaping in JSON, HTML or text. A body never contains data of the request.
//
// It is part of the Envoy filter, see package rule.
package rejection

import (
	"cmp"
	"strconv"
)

// Bounds of a body, so that a rejection stays small.
const (
	MaxBody         = 1024 // bytes, as it is written
	MaxPlaceholders = 8
)

// Form is what a request gets that is rejected because of a limit. Rejections because something
// failed have a form of their own. The zero value of a field means its default.
type Form struct {
	// Status is the HTTP status; 400 to 599, 0 means 429.
	Status int
	// Body is the text of the response, in which {rule}, {retry_after} and {limit} are
	// placeholders; at most MaxBody bytes. Empty: a problem document of RFC 9457.
	Body string
	// ContentType is the type of Body: one of [ContentTypes], perhaps with [Charset].
	// Empty without Body.
	ContentType string
	// GRPCStatus is the status of a gRPC request, which gets no body; 1 to 16, 0 means 8,
	// RESOURCE_EXHAUSTED.
	GRPCStatus int
}

// Default is the form of a rule that states none.
var Default = Form{Status: 429, GRPCStatus: 8}

// Charset may follow a content type: every body is UTF-8.
const Charset = "; charset=utf-8"

// ContentTypes are the types that a body may have. Those up to [JSONTypes] are of JSON.
var ContentTypes = [...]string{"application/json", "application/problem+json", "text/plain", "text/html"}

// JSONTypes is how many of the content types are JSON.
const JSONTypes = 2

// WithDefaults fills in the defaults.
func (f Form) WithDefaults() Form {
	f.Status, f.GRPCStatus = cmp.Or(f.Status, Default.Status), cmp.Or(f.GRPCStatus, Default.GRPCStatus)
	return f
}

// Values take the place of placeholders.
type Values struct {
	Rule       string // its name
	RetryAfter int64  // seconds, as in the header of that name; 0: waiting does not help
	Limit      int64  // units
}

// The placeholders, without braces.
const (
	Rule       = "rule"
	RetryAfter = "retry_after"
	Limit      = "limit"
)

// AppendBody appends the body with its placeholders replaced.
func (f *Form) AppendBody(dst []byte, v Values) []byte {
	for body := f.Body; ; {
		before, name, after := Cut(body)
		dst = append(dst, before...)
		switch name {
		case "":
			return dst
		case Rule:
			dst = append(dst, v.Rule...)
		case RetryAfter:
			dst = strconv.AppendInt(dst, v.RetryAfter, 10)
		case Limit:
			dst = strconv.AppendInt(dst, v.Limit, 10)
		}
		body = after
	}
}

// Cut cuts a body at its first placeholder: small letters and _ in braces. name is empty if
// there is none; before is the whole body then.
func Cut(body string) (before, name, after string) {
	start := 0
	for i := range len(body) {
		switch c := body[i]; {
		case c == '{':
			start = i + 1
		case c == '}' && start > 0 && i > start:
			return body[:start-1], body[start:i], body[i+1:]
		case c != '_' && (c < 'a' || c > 'z'):
			start = 0
		}
	}
	return body, "", ""
}
