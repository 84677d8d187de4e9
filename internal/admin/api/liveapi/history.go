package liveapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/live/history"
	"github.com/weirlimit/weir/internal/rule"
)

// spans are the words for spans of time, in milliseconds.
var spans = map[string]int64{
	"15m": (15 * time.Minute).Milliseconds(), "1h": time.Hour.Milliseconds(), "24h": (24 * time.Hour).Milliseconds(),
}

type historyInput struct {
	Span string `query:"span" enum:"15m,1h,24h" default:"1h" doc:"How far back."`
}

func (o *operations) getHistory(ctx context.Context, in *historyInput) (*api.Body[*v1.History], error) {
	h, now, err := o.history(ctx)
	if err != nil {
		return nil, err
	}
	out := h.Steps(now, spans[in.Span])
	out.Of = o.Collector.Of()
	return &api.Body[*v1.History]{Body: out}, nil
}

type historyKeysInput struct {
	Span  string `query:"span" enum:"1h,24h" default:"1h" doc:"The hours that lie in it, whole."`
	By    string `query:"by" enum:"key,denied" default:"key" doc:"Keys that came most, or keys that were rejected most or would have been."`
	Rule  string `query:"rule" doc:"Name of the rule; it stands for those, too, that it was expanded into. Missing: all rules."`
	Limit int    `query:"limit" minimum:"1" maximum:"256" default:"20" doc:"Most keys."`
}

func (o *operations) getHistoryKeys(ctx context.Context, in *historyKeysInput) (*api.Body[*v1.HistoryKeys], error) {
	h, now, err := o.history(ctx)
	if err != nil {
		return nil, err
	}
	out := h.Keys(now, history.KeysQuery{
		Span: spans[in.Span], Rejected: in.By == "denied", Limit: in.Limit,
		Of: func(name string) bool { return in.Rule == "" || name == in.Rule || rule.Written(name) == in.Rule },
		Hides: func(name string) bool {
			r := o.Rule(name)
			return r != nil && r.HideKeys
		},
	})
	out.Of = o.Collector.Of()
	return &api.Body[*v1.HistoryKeys]{Body: out}, nil
}

func (o *operations) history(ctx context.Context) (*history.History, int64, error) {
	h, now, err := o.Collector.History(ctx)
	switch {
	case errors.Is(err, live.ErrNoHistory):
		return nil, 0, v1.NewProblem(http.StatusNotFound, v1.CodeNoHistory, err.Error())
	case err != nil:
		return nil, 0, problem(err)
	}
	return h, now, nil
}
