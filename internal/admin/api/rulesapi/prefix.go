package rulesapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// within rejects a document that changes what the caller may not change in that of a version.
func (o *operations) within(ctx context.Context, v versions.Version, d *rulefile.Document) error {
	caller := api.Caller(ctx)
	if caller.Prefix == "" {
		return nil
	}
	text, err := []byte(noRules), error(nil)
	if !v.Zero() {
		text, err = o.Store.Document(ctx, v)
	}
	var before *rulefile.Document
	if err == nil {
		before, err = o.read(string(text))
	}
	if err != nil {
		return errors.New("the rules in force cannot be compared with the new ones: " + err.Error())
	}
	if what := differs(&caller, before.Set, d.Set); what != "" {
		return notMine(&caller, what)
	}
	return nil
}

// notMine is the problem of a change that the prefix of the caller forbids.
func notMine(c *access.Caller, what string) error {
	return v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, c.Name+" may change rules whose names begin with "+c.Prefix+
		", and this changes "+what+"; nothing was changed")
}

// differs is what differs between two sets beside the rules that the caller may change; empty: nothing.
func differs(c *access.Caller, a, b *rule.Set) string {
	before, after := others(c, a), others(c, b)
	for i := range max(len(before), len(after)) {
		switch {
		case i >= len(before):
			return "rule " + after[i].Name
		case i >= len(after) || !reflect.DeepEqual(before[i], after[i]):
			return "rule " + before[i].Name + ", its place, or what lifts it"
		}
	}
	if !reflect.DeepEqual(a.Regions(), b.Regions()) || a.Seed() != b.Seed() {
		return "what belongs to no rule, such as regions"
	}
	return ""
}

// others are the rules of a set that a caller may not change: an exempt rule changes those that it lifts, too.
func others(c *access.Caller, set *rule.Set) (all []*rule.Rule) {
	for i := range set.Len() {
		r := set.Rule(i)
		lifts := func(name string) bool { return !c.May(name) }
		if !c.May(r.Name) || r.Mode == rule.Exempt && (len(r.Exempts) == 0 || slices.ContainsFunc(r.Exempts, lifts)) {
			all = append(all, r)
		}
	}
	return all
}
