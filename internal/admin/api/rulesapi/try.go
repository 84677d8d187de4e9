package rulesapi

import (
	"context"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/rulediff"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
)

// testsTime is after how long no further test of a document begins: they take a processor from requests.
const testsTime = 10 * time.Second

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

// try has a document read, in turn with others.
func (o *operations) try(ctx context.Context, read func() error) (end func(), err error) {
	if end, err = turn(ctx, o.reads); err != nil {
		return nil, err
	}
	if err = read(); err != nil {
		end()
		p := v1.NewProblem(http.StatusUnprocessableEntity, v1.CodeWrong, "the document has mistakes")
		p.Findings = finding.Mistakes(documentName, err)
		return nil, p
	}
	return end, nil
}

func (o *operations) diff(ctx context.Context, in *api.Body[v1.Document]) (*api.Body[*rulediff.Diff], error) {
	newest, err := o.get(ctx, nil)
	if err != nil {
		return nil, err
	}
	var d *rulefile.Document
	end, err := o.try(ctx, func() (err error) { d, err = o.read(in.Body.Document); return err })
	if err != nil {
		return nil, err
	}
	defer end()
	before, err := o.read(newest.Body.Document)
	if err != nil {
		return nil, problem(err)
	}
	return &api.Body[*rulediff.Diff]{Body: rulediff.Compare(before.Set, d.Set, time.Now())}, nil
}

func (o *operations) test(ctx context.Context, in *api.Body[v1.Document]) (*api.Body[Tested], error) {
	var suite *ruletests.Suite
	end, err := o.try(ctx, func() (err error) {
		suite, err = ruletests.Read(documentName, []rulefile.File{{Name: documentName, Data: []byte(in.Body.Document)}})
		return err
	})
	if err != nil {
		return nil, err
	}
	defer end()
	out, began := &api.Body[Tested]{Body: Tested{Items: []Test{}}}, time.Now()
	for i := range suite.Tests {
		t := &suite.Tests[i]
		one := Test{Name: t.Name, Line: t.Line}
		switch {
		case t.Divided(): // it would take turns with all that this process does
			one.Problem = "it plays several regions; run it with weir test"
		case time.Since(began) > testsTime || ctx.Err() != nil:
			one.Problem = "it was not run: those before took too long; run it with weir test"
		default:
			if one.Failure, err = suite.Run(t, nil); err != nil {
				one.Problem = err.Error()
			}
		}
		out.Body.Items = append(out.Body.Items, one)
	}
	return out, nil
}
