package v1

import (
	"encoding/json"
	"time"
)

// Override is the limit of one key until a time, instead of that of its rule.
type Override struct {
	Rule string   `json:"rule" doc:"Name as it is written in the document."`
	Key  []string `json:"key,omitempty" maxItems:"8" doc:"A value for each part of the rule's key."`
	Hash string   `json:"hash,omitempty" doc:"Of the key instead, for a rule with hash: true; weir key prints it."`
	Name string   `json:"name,omitempty" doc:"Is told to clients that are refused."`
	// Limit and Limits are as in a document, as JSON.
	Limit  json.RawMessage `json:"limit,omitempty" doc:"As in a document: \"50/1m\", an object, or \"unlimited\"."`
	Limits json.RawMessage `json:"limits,omitempty" doc:"Likewise a list instead, for a rule with limits."`
	Until  time.Time       `json:"until" doc:"When it ends."`
	Why    string          `json:"why" minLength:"1" maxLength:"2000" doc:"Is kept with the version; the first 200 bytes also with the entry."`
}

// Candidate is a limit that is counted beside that of a rule, and refuses nothing, until a time.
type Candidate struct {
	Rule  string          `json:"rule" doc:"Name as it is written in the document."`
	Limit json.RawMessage `json:"limit" doc:"As in a document: \"50/1m\", or an object."`
	Until time.Time       `json:"until" doc:"When it ends."`
	Why   string          `json:"why" minLength:"1" maxLength:"2000" doc:"Is kept with the version; the first 200 bytes also with the entry."`
}

// SetBy is who set an entry, and whether it is in force.
type SetBy struct {
	When    time.Time `json:"when"`
	Who     string    `json:"who"`
	Problem string    `json:"problem,omitempty" doc:"Why it is not in force: it does not fit the document any more."`
}

// OverrideSet is an override that was set.
type OverrideSet struct {
	Override
	SetBy
}

// CandidateSet is a candidate that was set.
type CandidateSet struct {
	Candidate
	SetBy
}

// Overrides are all that have not ended.
type Overrides struct {
	Items []OverrideSet `json:"items" doc:"All: at most 1,000 overrides and candidates can be set."`
}

// Candidates are all that have not ended.
type Candidates struct {
	Items []CandidateSet `json:"items" doc:"All: at most 1,000 overrides and candidates can be set."`
}

// Amended is what became of a change of overrides or candidates.
type Amended struct {
	Version Version `json:"version"`
	Before  string  `json:"before,omitempty" doc:"The entry that is no more; missing: there was none."`
}
