package follow

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestRevision: what is written later, or read later, has the larger revision, and what
// edges could not follow is warned of.
func TestRevision(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	ms := func(ago time.Duration) uint64 { return uint64(at(ago).UnixMilli()) }
	const stated = 1 << 62
	type step struct {
		text     string
		modified time.Time
		want     uint64
		warns    string
	}
	for name, steps := range map[string][]step{
		"the file's time": {
			{first, at(time.Hour), ms(time.Hour), ""},
			{second, at(time.Minute), ms(time.Minute), ""},
		},
		"back to an older file": {
			{first, at(time.Hour), ms(time.Hour), ""},
			{second, at(2 * time.Hour), ms(time.Hour) + 1, ""},
			{first, at(time.Hour), ms(time.Hour) + 2, ""},
		},
		"touched": {
			{first, at(time.Hour), ms(time.Hour), ""},
			{first, at(time.Minute), ms(time.Minute), ""},
			{first, at(time.Hour), ms(time.Minute), ""},
		},
		"from the future": {{first, at(-time.Hour), ms(0), ""}},
		"without an age":  {{first, time.Unix(1, 0), 0, "neither a revision"}},
		"of an archive":   {{first, time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC), 0, "neither a revision"}},
		"stated": {
			{first, at(0), ms(0), ""},
			{"revision: 1\n" + second, at(time.Hour), stated + 1, ""},
			{"revision: 2\n" + first, time.Unix(0, 0), stated + 2, ""},
			{"revision: 2\n" + first, at(0), stated + 2, ""},
			{"revision: 2\n" + second, at(0), stated + 2, "without a new revision"},
			{"revision: 1\n" + first, at(0), stated + 1, "larger_than=2"},
			{second, at(0), stated - 1, "smaller"},
			{"revision: 1\n" + second, at(0), stated + 1, "smaller"}, // edges still have 2
			{"revision: 2\n" + first, at(0), stated + 2, ""},
			{"revision: 3\n" + second, at(0), stated + 3, ""},
		},
	} {
		var log strings.Builder
		o := order{log: slog.New(slog.NewTextHandler(&log, nil))}
		for i, s := range steps {
			set := o.date(fatal.Get(rulefile.Parse("rules.yaml", []byte(s.text)))(t), s.modified, now)
			log.Reset()
			o.applied(set)
			if set.Revision != s.want {
				t.Errorf("%s, step %d: revision %d, want %d", name, i, set.Revision, s.want)
			}
			if logged := log.String(); strings.Contains(logged, "level=WARN") != (s.warns != "") || !strings.Contains(logged, s.warns) {
				t.Errorf("%s, step %d: logged %q, want %q", name, i, logged, s.warns)
			}
		}
	}
}
