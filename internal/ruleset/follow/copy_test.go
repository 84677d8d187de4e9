package follow

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A start uses the newest copy, but none with a revision from the future, which somebody has forged.
func TestNewestCopy(t *testing.T) {
	w, now := toFile(t), uint64(time.Now().UnixMicro())
	of := func(limit int, revision uint64) *keptCopy {
		v := w.apply(limitOf(limit))
		content := fatal.Get(w.Content(t.Context(), v))(t)
		v.Revision = revision
		read := func(context.Context) ([]rulefile.File, error) { return filesOf(v, content), nil }
		return &keptCopy{read: read, wants: make(chan []rulefile.File, 1)}
	}
	for want, copies := range map[int64][]*keptCopy{
		10: {of(10, now), of(99, 1<<53-1)},
		20: {of(20, now+1), of(10, now)},
		30: {of(10, now), of(30, now+1)},
		0:  {of(99, 1<<53-1)},
	} {
		got := int64(0)
		apply := func(set *rule.Set) error { got = set.Rule(0).Limits[0].Limit.Count; return nil }
		s := &Stored{cfg: StoreConfig{Log: slog.New(slog.DiscardHandler), Apply: apply}, copies: copies}
		if files, candidate := s.newestCopy(); files != nil {
			fatal.If(t, candidate.Apply())
		}
		if got != want {
			t.Errorf("limit %d, want %d", got, want)
		}
	}
}
