package v1

import (
	"time"

	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Version is a version of the rules, without its document.
type Version struct {
	Revision   uint64    `json:"revision" doc:"Names the version, and grows with each one."`
	When       time.Time `json:"when"`
	Who        string    `json:"who"`
	Why        string    `json:"why"`
	RollbackTo uint64    `json:"rollback_to,omitempty" doc:"The version whose document this has again."`
	Amends     string    `json:"amends,omitempty" doc:"What it changes beside the document: an override or a candidate."`
	Size       int       `json:"size" doc:"Bytes of the document."`
	SHA256     string    `json:"sha256" doc:"Of the document."`
}

// Rules is the newest document, wherever rules come from.
type Rules struct {
	Source   string   `json:"source" enum:"consul,store,file,none" doc:"Where the rules come from; of a file they are read-only."`
	Version  *Version `json:"version,omitempty" doc:"Missing for a file, and before the first version."`
	Document string   `json:"document" doc:"The rules file."`
	InForce  InForce  `json:"in_force"`
}

// InForce is what the program that answers has in force.
type InForce struct {
	Version  string `json:"version" doc:"Hash of the compiled rules; empty: none are in force."`
	Revision uint64 `json:"revision" doc:"0: the rules have none."`
	Problem  string `json:"problem,omitempty" doc:"Why newer rules are not in force."`
}

// RuleInForce is a rule in force, in words.
type RuleInForce struct {
	Rule      string           `json:"rule" doc:"A rule with several limits is several, such as login and login@1d."`
	Mode      string           `json:"mode" enum:"enforce,shadow,off,exempt"`
	Shed      bool             `json:"shed,omitempty" doc:"It sheds load, and has no limit."`
	Words     []string         `json:"words" doc:"The limit, the requests, the mode, how exactly it counts, and what it does while the region is unavailable."`
	PerSecond float64          `json:"per_second,omitempty" doc:"Units a second that the limit lets pass of one key; missing: it has no limit per time."`
	Example   *request.Request `json:"example,omitempty" doc:"A request that it matches; missing: none was found."`
}

// RulesInForce are those of one name in the document.
type RulesInForce struct {
	Items []RuleInForce `json:"items"`
}

// Change is a new document.
type Change struct {
	Document string `json:"document" doc:"The rules file, YAML or JSON."`
	Why      string `json:"why" minLength:"1" maxLength:"2000" doc:"Is kept with the version."`
}

// Applied is what became of a change.
type Applied struct {
	Version  Version           `json:"version"`
	Before   uint64            `json:"before" doc:"Revision that was the newest; 0: there was none."`
	Warnings []finding.Finding `json:"warnings"`
}

// Document is a document to check.
type Document struct {
	Document string `json:"document" doc:"The rules file, YAML or JSON."`
}

// Validated is what a check found.
type Validated struct {
	OK       bool              `json:"ok" doc:"It has no mistakes; it may have warnings."`
	Version  string            `json:"version,omitempty" doc:"Hash of the compiled rules; missing with mistakes."`
	Rules    int               `json:"rules" doc:"Number of rules; of one with several limits each counts."`
	Findings []finding.Finding `json:"findings"`
}

// Versions is a page of the history.
type Versions struct {
	Items []Version `json:"items" doc:"The newest first."`
	Next  uint64    `json:"next,omitempty" doc:"The value of before for the next page; missing: this is the last."`
}

// VersionDocument is a version with its document.
type VersionDocument struct {
	Version  Version `json:"version"`
	Document string  `json:"document"`
}

// Rollback is which version comes back.
type Rollback struct {
	Revision uint64 `json:"revision,omitempty" doc:"Version whose document comes back; 0: the one before the newest."`
	Why      string `json:"why" minLength:"1" maxLength:"2000" doc:"Is kept with the version."`
}

// Amendments are all overrides, or all candidates, that have not ended.
type Amendments struct {
	Items []amend.Entry `json:"items" doc:"All: at most 1,000 overrides and candidates can be set."`
}

// Amended is what became of a change of overrides or candidates.
type Amended struct {
	Version Version `json:"version"`
	Before  string  `json:"before,omitempty" doc:"The entry that is no more; missing: there was none."`
}

// Whoami is the client that calls, and its rights.
type Whoami struct {
	Name   string     `json:"name" doc:"Name of the token or certificate; local: a client on this machine."`
	Role   string     `json:"role" enum:"viewer,operator,admin"`
	Prefix string     `json:"prefix,omitempty" doc:"The client can change only rules whose names begin with this; missing: all rules."`
	Until  *time.Time `json:"until,omitempty" doc:"When the token ends; missing: never."`
}

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
