// Package follow puts rules in force when they change: those of a rules file, or the versions in Consul. Rules with a mistake
// never replace correct ones.
//
//	follow.go    a rules file, or a directory of them
//	revision.go  its revision: later files are newer
//	store.go     versions in Consul
//	copy.go      copies of them, for a start without Consul
package follow

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// New makes a watcher of the file, or of the directory, at path. apply puts a set of rules in force; it
// is called by the watcher's Load and Run only; an error rejects the set until it is
// tried again, at the next reading.
func New(path string, apply func(*rule.Set) error, log *slog.Logger, r *telemetry.Registry) *watch.Watcher {
	order := order{log: log}
	parse := func(files []rulefile.File) (watch.Candidate, error) {
		d, err := rulefile.Merge(path, files)
		if err != nil {
			return watch.Candidate{}, err
		}
		newest := slices.MaxFunc(files, func(a, b rulefile.File) int { return a.Modified.Compare(b.Modified) })
		set := order.date(d.Set, newest.Modified, time.Now())
		return watch.Candidate{
			Version:  set.Content,
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
	}
	read := func() ([]rulefile.File, error) {
		files, err := rulefile.ReadFiles(path)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		return files, nil
	}
	return watch.New(watch.Config{What: "rules", Path: path, Read: read, Parse: parse, Log: log, Metrics: r})
}
