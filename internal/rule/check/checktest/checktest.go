// Package checktest makes sets of rules for tests and simulations.
package checktest

import (
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// New checks rules that Go code makes, of values as package read makes them, and makes a set of them; regions are those
// that have shares. The error is [strict.Errors], one for each mistake, with the path of the field as in a rules file.
// New keeps what the rules point to; do not change it afterwards.
func New(rules []rule.Rule, regions ...rule.Region) (*rule.Set, error) {
	set, problems := check.Rules(rules, regions, 0)
	if set != nil {
		return set, nil
	}
	errs := make(strict.Errors, len(problems))
	for i, p := range problems {
		errs[i] = strict.Error{Path: p.Path, Reason: p.Text(p.Other)}
	}
	return nil, errs
}
