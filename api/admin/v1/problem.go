// Package v1 has the messages of version 1 of the admin API, for the API and its clients.
package v1

import (
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/ruleset/finding"
)

// Problem is every answer that is not what was asked for (RFC 9457).
type Problem struct {
	Title  string `json:"title" doc:"Words for the status."`
	Status int    `json:"status" doc:"HTTP status."`
	Detail string `json:"detail" doc:"What is wrong, and what to do."`
	// Code is empty for mistakes in the form of a request.
	Code     string            `json:"code,omitempty" doc:"Names the problem, for programs; see docs/api.md."`
	Findings []finding.Finding `json:"findings,omitempty" doc:"Mistakes in rules, or in the fields of the request."`

	header http.Header // of the answer; nil: none
}

// The codes of problems.
const (
	CodeNotServed    = "not-served"
	CodeHost         = "host"
	CodeOrigin       = "origin"
	CodeNobody       = "unauthenticated"
	CodeOver         = "token-over"
	CodeForbidden    = "forbidden"
	CodeTooMany      = "too-many-calls"
	CodeUnknown      = "unknown-operation"
	CodeReadOnly     = "read-only"
	CodeChanged      = "rules-changed"
	CodeWrong        = "rules-wrong"
	CodePrecondition = "if-match"
	CodeNoVersion    = "no-version"
	CodeStore        = "store"
	CodeAmendment    = "amendment-wrong"
	CodeNoEntry      = "no-entry"
	CodeNoRule       = "no-rule"
	CodeNoHistory    = "no-history"
	CodeElsewhere    = "counted-elsewhere"
	CodeKey          = "key"
	CodeUndecided    = "undecided"
	CodeRegion       = "region"
)

// NewProblem makes a problem.
func NewProblem(status int, code, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// With adds a header to the answer.
func (p *Problem) With(name, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// Error is what people read, with a line for each finding.
func (p *Problem) Error() string {
	lines := []string{p.Detail}
	for i := range p.Findings {
		lines = append(lines, p.Findings[i].String())
	}
	return strings.Join(lines, "\n")
}

// GetStatus is the status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are further headers of the answer.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ProblemType is the media type of problems.
const ProblemType = "application/problem+json"

// ContentType is the media type of the answer.
func (p *Problem) ContentType(string) string { return ProblemType }
