package v1

import "github.com/weirlimit/weir/internal/ruleset/amend"

// Amendments are all overrides, or all candidates, that have not ended.
type Amendments struct {
	Items []amend.Entry `json:"items" doc:"All: at most 1,000 overrides and candidates can be set."`
}

// Amended is what became of a change of overrides or candidates.
type Amended struct {
	Version Version `json:"version"`
	Before  string  `json:"before,omitempty" doc:"The entry that is no more; missing: there was none."`
}
