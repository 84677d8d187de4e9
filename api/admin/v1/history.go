package v1

import "time"

// History is what rules decided in the past, in steps of time. A step of a list is that of the same place in all other lists.
type History struct {
	Of     string        `json:"of" doc:"As that of the status."`
	From   time.Time     `json:"from" doc:"Begin of the first step."`
	StepMs int64         `json:"step_ms" doc:"Length of each step: 10,000 up to an hour and 60,000 for a day; longer if the rules are too many for that."`
	Known  []bool        `json:"known" doc:"For each step whether anything was recorded. The last step is the last one that is complete."`
	Rules  []RuleHistory `json:"rules" doc:"Rules with any count, by name."`
}

// RuleHistory is what one rule decided: requests in each step.
type RuleHistory struct {
	Rule         string   `json:"rule"`
	Admitted     []uint64 `json:"admitted"`
	Denied       []uint64 `json:"denied"`
	ShadowDenied []uint64 `json:"shadow_denied" doc:"That a shadow rule or a candidate would have rejected."`
	Fallback     []uint64 `json:"fallback" doc:"Of those admitted and denied: decided by on_failure."`
	Shed         []uint64 `json:"shed" doc:"Of those denied: by a rule that sheds load."`
}

// HistoryKeys is which keys came most in the past, and whom rules on trial would have rejected.
type HistoryKeys struct {
	Of     string       `json:"of" doc:"As that of the status."`
	From   time.Time    `json:"from" doc:"Begin of what is counted: keys are kept by the hour."`
	Keys   []KeyHistory `json:"keys" doc:"The first one came most, or was rejected most."`
	Trials []Trial      `json:"trials" doc:"Shadow rules and candidates that decided anything, by name."`
}

// KeyHistory is how many requests of a key came, or were rejected.
type KeyHistory struct {
	Rule     string `json:"rule"`
	Override string `json:"override,omitempty"`
	Key      string `json:"key" doc:"As that of a rate."`
	Requests uint64 `json:"requests" doc:"Estimated: busy workers count keys for 20 s of each minute."`
	Over     uint64 `json:"over" doc:"By how much requests is too large at most, but for what came in the rest of the minute."`
}

// Trial is what a rule on trial would have done.
type Trial struct {
	Rule         string `json:"rule"`
	Requests     uint64 `json:"requests" doc:"That it matched while on trial."`
	ShadowDenied uint64 `json:"shadow_denied" doc:"Of these: that it would have rejected."`
	Keys         uint64 `json:"keys" doc:"Estimated number of keys of shadow_denied."`
	ErrorPercent int    `json:"error_percent" doc:"By how much keys is wrong at most, as three standard errors; 0: exact."`
}
