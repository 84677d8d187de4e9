package rulesapi

import (
	"context"
	"errors"
	"time"

	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/finding"
)

type validateInput struct{ Body v1.Document }

type validateOutput struct{ Body v1.Validated }

// validate finds what `weir validate` finds.
func (o *operations) validate(ctx context.Context, in *validateInput) (*validateOutput, error) {
	d, err := o.read(ctx, o.reads, in.Body.Document)
	var wrong *wrongError
	switch {
	case errors.As(err, &wrong):
		return &validateOutput{v1.Validated{Findings: finding.Mistakes(documentName, wrong.error)}}, nil
	case err != nil:
		return nil, problem(err)
	}
	found := append([]finding.Finding{}, finding.Warnings(d, time.Now())...)
	return &validateOutput{v1.Validated{OK: true, Version: d.Set.Version, Rules: d.Set.Len(), Findings: found}}, nil
}
