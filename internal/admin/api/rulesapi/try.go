package rulesapi

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/rulediff"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
)

// tryTime bounds the comparison of a document, and all its tests: they take a processor from requests.
const tryTime = 10 * time.Second

// Tested is what became of the tests of a document.
type Tested struct {
	Items []Test `json:"items" doc:"In their order."`
}

// Test is what became of a test; without a failure and a problem it passed.
type Test struct {
	Name    string             `json:"name"`
	Line    int                `json:"line" doc:"From 1."`
	Failure *ruletests.Failure `json:"failure,omitempty" doc:"The first step that differs."`
	Problem string             `json:"problem,omitempty" doc:"Why it was not run."`
}

// try does something with a document, in turn with others. What it does ends after a while, and with the call.
func (o *operations) try(ctx context.Context, do func(context.Context) error) error {
	end, err := turn(ctx, o.reads)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return do(ctx)
}

// wrong is the problem that a document has mistakes, with what follows from them.
func wrong(therefore string, err error) error {
	p := v1.NewProblem(http.StatusUnprocessableEntity, v1.CodeWrong, therefore+"the document has mistakes")
	p.Findings = finding.Mistakes(documentName, err)
	return p
}

func (o *operations) diff(ctx context.Context, in *api.Body[v1.Document]) (*api.Body[*rulediff.Diff], error) {
	newest, err := o.get(ctx, nil)
	if err != nil {
		return nil, err
	}
	if newest.Body.Document == "" { // nobody has applied one yet
		newest.Body.Document = noRules
	}
	out := &api.Body[*rulediff.Diff]{}
	return out, o.try(ctx, func(ctx context.Context) error {
		after, err := o.read(in.Body.Document)
		if err != nil {
			return wrong("", err)
		}
		before, err := o.read(newest.Body.Document)
		if err != nil {
			return problem(err)
		}
		out.Body, err = rulediff.Compare(ctx, before.Set, after.Set, time.Now())
		return problem(err)
	})
}

func (o *operations) test(ctx context.Context, in *api.Body[v1.Document]) (*api.Body[Tested], error) {
	out := &api.Body[Tested]{Body: Tested{Items: []Test{}}}
	return out, o.try(ctx, func(ctx context.Context) error {
		suite, err := ruletests.Read(documentName, []rulefile.File{{Name: documentName, Data: []byte(in.Body.Document)}})
		if err != nil {
			return wrong("", err)
		}
		for i := range suite.Tests {
			out.Body.Items = append(out.Body.Items, run(ctx, suite, &suite.Tests[i]))
		}
		return nil
	})
}

func run(ctx context.Context, suite *ruletests.Suite, t *ruletests.Test) Test {
	one := Test{Name: t.Name, Line: t.Line}
	var err error
	if one.Failure, err = suite.Run(ctx, t, nil); ctx.Err() != nil {
		one.Failure, one.Problem = nil, "there was no time to run it to its end; run it with weir rules test"
	} else if err != nil {
		one.Problem = err.Error()
	}
	return one
}
