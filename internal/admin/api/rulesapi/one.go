package rulesapi

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/describe"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

type ruleInput struct {
	Rule string `path:"rule" maxLength:"130" doc:"Name in the document, or of one of the rules that it is expanded into, such as login@1d."`
}

func (o *operations) inForce(ctx context.Context, in *ruleInput) (*api.Body[v1.RulesInForce], error) {
	out := &api.Body[v1.RulesInForce]{Body: v1.RulesInForce{Items: []v1.RuleInForce{}}}
	set := o.Set()
	if set == nil {
		set = rule.NewSet(nil, nil, 0)
	}
	err := o.try(ctx, func(ctx context.Context) error {
		all := namedIn(set, in.Rule)
		for i := range all {
			r := &all[i]
			out.Body.Items = append(out.Body.Items, v1.RuleInForce{
				Rule: r.Name, Mode: r.Mode.String(), Shed: r.Shed != nil, Words: describe.Rule(r), PerSecond: describe.PerSecond(r),
				Example: describe.Example(ctx, r, set.Seed(), time.Now()),
			})
		}
		return nil
	})
	if err == nil && len(out.Body.Items) == 0 {
		err = v1.NewProblem(http.StatusNotFound, v1.CodeNoRule, "no rule named "+in.Rule+" is in force")
	}
	return out, err
}

// namedIn are the rules of a set with a name, or that were expanded of the rule with this name in the document.
func namedIn(set *rule.Set, name string) (all []rule.Rule) {
	for i := range set.Len() {
		if r := set.Rule(i); r.Name == name || rule.Written(r.Name) == name {
			all = append(all, *r)
		}
	}
	return all
}

// changed are those of the versions, the newest first, that changed a rule. A version that cannot be read, and one after it,
// are among them.
func (o *operations) changed(ctx context.Context, all []versions.Version, name string) (some []versions.Version, err error) {
	known := map[string][]rule.Rule{} // the rules with the name, by the SHA-256 of a document
	read := func(v *versions.Version) (is []rule.Rule, err error) {
		if is, ok := known[v.SHA256]; ok {
			return is, nil
		}
		text, err := o.Store.Document(ctx, *v)
		if err != nil {
			return nil, err
		}
		d, err := versions.Parse(documentName, text)
		if err == nil {
			known[v.SHA256] = namedIn(d.Set, name)
		}
		return known[v.SHA256], err
	}
	return some, o.try(ctx, func(ctx context.Context) error {
		for i := range all {
			v, before := &all[i], []rule.Rule{}
			if v.Amends != "" {
				if amends(v.Amends, name) {
					some = append(some, *v)
				}
				continue
			}
			is, err := read(v)
			if err == nil && i+1 < len(all) {
				before, err = read(&all[i+1])
			}
			if same := len(is)+len(before) == 0 || reflect.DeepEqual(is, before); err != nil || !same {
				some = append(some, *v)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
}

// amends reports whether an amendment, in the words of a version, is of a rule.
func amends(text, name string) bool {
	_, on, _ := strings.Cut(text, " of ")
	end := strings.IndexAny(on, " :")
	return end >= 0 && rule.Written(on[:end]) == rule.Written(name)
}
