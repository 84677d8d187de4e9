package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
)

func (a *API) addWhoami() {
	Add(a, access.Viewer, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Summary: "Name and role of the client that makes this call",
	}, whoami)
}

func whoami(ctx context.Context, _ *struct{}) (*Body[v1.Whoami], error) {
	caller := Caller(ctx)
	out := &Body[v1.Whoami]{v1.Whoami{Name: caller.Name, Role: caller.Role.String(), Prefix: caller.Prefix}}
	if !caller.Until.IsZero() {
		out.Body.Until = &caller.Until
	}
	return out, nil
}
