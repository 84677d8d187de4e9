package v1

import "time"

// AuditEntry is one change that somebody made.
type AuditEntry struct {
	ID     string    `json:"id" doc:"Orders the entries."`
	When   time.Time `json:"when"`
	Who    string    `json:"who" doc:"Name of the token or certificate; local: somebody on this machine."`
	Role   string    `json:"role"`
	What   string    `json:"what" doc:"The operation, such as rules.apply."`
	On     string    `json:"on,omitempty" doc:"What was changed, such as a rule or a region."`
	Before string    `json:"before,omitempty"`
	After  string    `json:"after,omitempty"`
	Why    string    `json:"why,omitempty"`
}

// Audit is a page of the audit.
type Audit struct {
	Items []AuditEntry `json:"items" doc:"The newest first."`
	Next  string       `json:"next,omitempty" doc:"The value of before for the next page; missing: this is the last."`
}
