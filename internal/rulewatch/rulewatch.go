// Package rulewatch puts a rules file in force whenever it changes. A file with a mistake
// never replaces good rules.
package rulewatch

import (
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// Watcher reads one rules file again and again. Create it with [New].
type Watcher = watch.Watcher

// New makes a watcher of the file at path. apply puts a set of rules in force; it
// is called by the watcher's Load and Run only; an error refuses the set until it is
// tried again, at the next reading.
func New(path string, apply func(*rule.Set) error, log *slog.Logger, r *telemetry.Registry) *Watcher {
	order := order{log: log}
	return watch.New(watch.Config{
		What: "rules",
		Path: path,
		Read: watch.One("rules", path),
		Parse: func(files []watch.File) (watch.Candidate, error) {
			set, err := rulefile.Parse(path, files[0].Data)
			if err != nil {
				return watch.Candidate{}, err
			}
			set = order.date(set, files[0].Modified, time.Now())
			return watch.Candidate{
				Version:  set.Version,
				Revision: set.Revision,
				Apply: func() error {
					err := apply(set)
					if err == nil {
						order.applied(set)
					}
					return err
				},
				About: []any{"rules", set.Len(), "revision", set.Number()},
			}, nil
		},
		Log:     log,
		Metrics: r,
	})
}
