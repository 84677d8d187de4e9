// Package ruletests has tests of rules: the section tests of a rules document, in which people write what requests come and
// what becomes of them. The limiter of package exact decides the requests of a test, and on_failure while the test has something not
// answer. The response is that of the filter. The filter takes a document with tests, and does not look into them.
package ruletests

import (
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Bounds of a document, and of each test.
const (
	maxTests    = 10_000
	maxSteps    = 10_000
	maxRequests = 1_000_000
	maxPoPs     = 64
	maxNames    = 100                              // of headers or claims of a request: each step has all of them
	maxTime     = 400 * limit.Day                  // virtual time
	noon        = 20_454*limit.Day + 12*limit.Hour // 2026-01-01T12:00:00Z, when a test begins that does not state it
)

// Suite is rules and their tests.
type Suite struct {
	Tests []Test

	rules *rule.Set
	doc   *rulefile.Document
}

// Test is one test. Running it does not change it.
type Test struct {
	Name string `json:"name"` // unique in a suite
	File string `json:"file"`
	Line int    `json:"line"`

	start   limit.Micros // the time of day in µs since 1970
	pops    []pop        // at least one
	regions []string     // that run: those of pops, and those of the document where they share limits
	steps   []step
}

// pop is an Envoy with the filter.
type pop struct {
	name, region string
	labels       map[string]string
}

// step is requests that are alike, or a fault.
type step struct {
	line    int
	at      limit.Micros // from the start of the test, never before the step before it; negative: right behind that
	pop     int          // which of the test gets the requests
	request request.Request
	count   int          // of requests; 0: the step is a fault
	every   limit.Micros // from one request to the next; 0: each comes when the one before is decided
	lasts   limit.Micros // how long a request that is admitted holds its slots and its reservations
	// response is that of each request that is admitted; nil: one that counts.
	response *settle.Response
	fault    fault
	expect   expect
}

// fault is something that does not answer from now on, or answers again.
type fault struct {
	aggregator bool   // else the region, to its PoPs
	region     string // with aggregator: to which it does not answer; empty: to all
	down       bool
}

// expect is what must become of the requests of a step.
type expect struct {
	// outcome is allowed or denied, and rule that which denies or is nearest its limit, for each request; empty: any. The
	// rule has the name that is written, for all that it was expanded into, or that of one of these, or is none.
	outcome, rule string
	fields        []field // of the last request, but for how many are allowed and denied
}

// field is what a field of an expectation states.
type field struct {
	name   string   // as in the document; of a header "header" and its name
	want   string   // empty: it is absent
	values []string // of key: one for each part
}

// Read reads rules and tests of files as [rulefile.Merge] does.
func Read(path string, files []rulefile.File) (*Suite, error) {
	var r reader
	doc, err := rulefile.Merge(path, files, r.read)
	if err != nil {
		return nil, err
	}
	for i := range r.tests {
		r.tests[i].File = doc.Place(strict.Index("tests", i)).File
	}
	return &Suite{r.tests, doc.Set.Dated(1), doc}, nil
}

// Check is a [rulefile.Section] for who reads rules and runs no test.
func Check(doc strict.Value, set *rule.Set) { new(reader).read(doc, set) }
