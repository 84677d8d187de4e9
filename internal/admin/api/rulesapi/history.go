package rulesapi

import (
	"context"
	"errors"

	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

type listInput struct {
	api.Page
	Before uint64 `query:"before" doc:"The value of next of the page before; 0: the newest."`
}

type listOutput struct{ Body v1.Versions }

func (o *operations) list(ctx context.Context, in *listInput) (*listOutput, error) {
	if err := o.kept(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := o.Store.History(ctx)
	if damaged := new(versions.DamagedError); err != nil && !errors.As(err, &damaged) { // the others can be read
		return nil, problem(err)
	}
	out := &listOutput{v1.Versions{Items: []v1.Version{}}}
	for _, v := range all {
		switch {
		case in.Before != 0 && v.Revision >= in.Before:
		case len(out.Body.Items) == in.Limit:
			out.Body.Next = out.Body.Items[in.Limit-1].Revision
			return out, nil
		default:
			out.Body.Items = append(out.Body.Items, *about(v))
		}
	}
	return out, nil
}

type versionInput struct {
	Revision uint64 `path:"revision" minimum:"1"`
}

type versionOutput struct{ Body v1.VersionDocument }

func (o *operations) version(ctx context.Context, in *versionInput) (*versionOutput, error) {
	if err := o.kept(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	v, err := o.Store.Version(ctx, in.Revision)
	if err != nil {
		return nil, problem(err)
	}
	text, err := o.Store.Document(ctx, v)
	return &versionOutput{v1.VersionDocument{Version: *about(v), Document: string(text)}}, problem(err)
}
