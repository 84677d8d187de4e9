package rulesapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// within refuses a document that changes what the caller may not change in that of a version.
func (o *operations) within(ctx context.Context, v versions.Version, d *rulefile.Document) error {
	caller := api.Caller(ctx)
	if caller.Prefix == "" {
		return nil
	}
	was := []byte("rules: []\n")
	if !v.Zero() {
		var err error
		if was, err = o.Store.Document(ctx, v); err != nil {
			return err
		}
	}
	before, err := o.read(ctx, o.changes, string(was))
	if err != nil {
		return errors.New("the rules in force cannot be compared with the new ones: " + err.Error())
	}
	if what := differs(&caller, before.Set, d.Set); what != "" {
		return v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, caller.Name+" may change rules whose names begin with "+caller.Prefix+
			", and this changes "+what+"; nothing was changed")
	}
	return nil
}

// differs is what differs between two sets beside the rules that the caller may change; empty: nothing.
func differs(c *access.Caller, a, b *rule.Set) string {
	before, restBefore := others(c, a)
	after, restAfter := others(c, b)
	for i := range max(len(before), len(after)) {
		switch {
		case i >= len(before):
			return "rule " + after[i].name
		case i >= len(after) || before[i].name != after[i].name || !bytes.Equal(before[i].text, after[i].text):
			return "rule " + before[i].name + ", or its place"
		}
	}
	if !maps.EqualFunc(restBefore, restAfter, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return "what belongs to no rule, such as regions"
	}
	return ""
}

// compiled is a rule in compiled form.
type compiled struct {
	name string
	text json.RawMessage
}

// others are the rules of a set that a caller may not change, and what is beside the rules.
func others(c *access.Caller, set *rule.Set) (rules []compiled, rest map[string]json.RawMessage) {
	var texts []json.RawMessage
	err := json.Unmarshal(set.Encode(), &rest)
	if err == nil {
		err = json.Unmarshal(rest["rules"], &texts)
	}
	delete(rest, "rules")
	for _, text := range texts {
		var r struct {
			Name string `json:"name"`
		}
		err = errors.Join(err, json.Unmarshal(text, &r))
		if !c.May(r.Name) {
			rules = append(rules, compiled{r.Name, text})
		}
	}
	if err != nil {
		panic(err) // of what the package rule writes
	}
	return rules, rest
}
