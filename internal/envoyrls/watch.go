package envoyrls

import (
	"log/slog"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// WatchConfig makes a watcher of a directory with the configuration of
// envoyproxy/ratelimit, which it puts in force in s. Warnings about a new configuration
// are logged.
func WatchConfig(dir string, o descriptor.Options, s *Server, log *slog.Logger, r *telemetry.Registry) *watch.Watcher {
	return watch.New(watch.Config{
		What: "ratelimit",
		Path: dir,
		Read: func() ([]rulefile.File, error) { return descriptor.Read(dir) },
		Parse: func(files []rulefile.File) (watch.Candidate, error) {
			config, err := descriptor.Parse(files, o)
			s.metrics.Hits.Load(err)
			if err != nil {
				return watch.Candidate{}, err
			}
			return watch.Candidate{
				Version: config.Version(),
				Apply: func() error {
					for _, w := range config.Warnings() {
						log.Warn("ratelimit: configuration warning", "warning", w.Error())
					}
					s.SetConfig(config)
					return nil
				},
				About: []any{"files", len(files)},
			}, nil
		},
		Log:     log,
		Metrics: r,
	})
}

// WatchBindings makes a watcher of a file of bindings, which it puts in force in s.
// Their rules must be in force before.
func WatchBindings(path string, s *Server, log *slog.Logger, r *telemetry.Registry) *watch.Watcher {
	return watch.NewFile("ratelimit_bindings", path, func(f rulefile.File) (watch.Candidate, error) {
		bindings, err := binding.Parse(path, f.Data)
		if err != nil {
			return watch.Candidate{}, err
		}
		return watch.Candidate{
			Version: bindings.Version(),
			Apply:   func() error { return s.SetBindings(bindings) },
			About:   []any{"bindings", bindings.Len()},
		}, nil
	}, log, r)
}
