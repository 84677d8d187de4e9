package rulesapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
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
		for _, r := range set.Named(in.Rule) {
			item := v1.RuleInForce{
				Rule: r.Name, Mode: r.Mode.String(), Shed: r.Shed != nil, Words: describe.Rule(r),
				Example: describe.Example(r, set.Seed(), time.Now()),
			}
			if r.Limited() {
				item.PerSecond = r.Limits[0].Limit.PerSecond()
			}
			out.Body.Items = append(out.Body.Items, item)
		}
		return nil
	})
	if err == nil && len(out.Body.Items) == 0 {
		err = v1.NewProblem(http.StatusNotFound, v1.CodeNoRule, "no rule named "+in.Rule+" is in force")
	}
	return out, err
}

// changed are those of the versions, the newest first, that changed a rule. A version that cannot be read, and one after it,
// are among them.
func (o *operations) changed(ctx context.Context, all []versions.Version, name string) (some []versions.Version, err error) {
	err = o.try(ctx, func(ctx context.Context) error {
		sum, before, unread := "", []*rule.Rule(nil), false // of the last document
		for _, v := range slices.Backward(all) {
			is, unreadable := before, false
			if v.SHA256 != sum {
				is, unreadable = nil, true
				if text, err := o.Store.Document(ctx, v); err == nil {
					if d, err := versions.Parse(documentName, text); err == nil {
						is, unreadable = d.Set.Named(name), false
					}
				}
			}
			if v.Amends != "" && amends(v.Amends, name) || v.Amends == "" && (unread || unreadable || !reflect.DeepEqual(is, before)) {
				some = append(some, v)
			}
			sum, before, unread = v.SHA256, is, unreadable
		}
		slices.Reverse(some)
		return ctx.Err()
	})
	return some, err
}

// amends reports whether an amendment, in the words of a version, is of a rule.
func amends(text, name string) bool {
	_, on, _ := strings.Cut(text, " of ")
	end := strings.IndexAny(on, " :")
	return end >= 0 && rule.Written(on[:end]) == rule.Written(name)
}
