package keysapi

import (
	"context"
	"net/http"

	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

func (o *operations) forget(ctx context.Context, in *api.Body[v1.Region]) (*struct{}, error) {
	if p := api.Unbound(api.Caller(ctx)); p != nil {
		return nil, p
	}
	if err := o.Forget(ctx, in.Body.Region); err != nil {
		return nil, v1.NewProblem(http.StatusConflict, v1.CodeRegion, err.Error())
	}
	o.api.Record(ctx, v1.AuditEntry{What: "region.dead", On: in.Body.Region})
	return nil, nil
}
