package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/telemetry"
)

// copyEvery is the time between two tries to write a copy.
const copyEvery = 5 * time.Second

// keptCopy is a copy of the rules in force, for a start without the Consul that has them.
type keptCopy struct {
	where string // for people
	read  func(context.Context) ([]rulefile.File, error)
	write func(context.Context, []rulefile.File) error
	ok    telemetry.Gauge
	log   *slog.Logger
	wants chan []rulefile.File // the newest to write
}

// newCopies are those that a configuration asks for.
func newCopies(c *StoreConfig) (all []*keptCopy) {
	ok := c.Metrics.Gauges("weir_rules_copy_ok", "1 while the copy of the rules in force, for a start without Consul, is written; 0 before that, and after it failed.", "place")
	add := func(place, where string, read func(context.Context) ([]rulefile.File, error), write func(context.Context, []rulefile.File) error) {
		all = append(all, &keptCopy{where, read, write, ok.WithLabelValues(place), c.Log, make(chan []rulefile.File, 1)})
	}
	if path := c.Copy; path != "" {
		add("disk", path,
			func(context.Context) ([]rulefile.File, error) { return readCopy(path) },
			func(_ context.Context, files []rulefile.File) error { return writeCopy(path, files) })
	}
	if c.Datacenter != "" && c.Region != "" {
		prefix := versions.CopyPrefix(c.Region)
		store := versions.New(c.Agent, "", prefix)
		add("region", prefix,
			func(ctx context.Context) ([]rulefile.File, error) {
				v, err := store.Current(ctx)
				if err != nil || v.Zero() {
					return nil, err
				}
				content, err := store.Content(ctx, v)
				return filesOf(v, content), err
			},
			func(ctx context.Context, files []rulefile.File) error {
				v, err := versionOf(files)
				if err != nil {
					return err
				}
				return store.Mirror(ctx, v, contentOf(files))
			})
	}
	return all
}

// load reads the copy; nil if there is none that can be read.
func (c *keptCopy) load() []rulefile.File {
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	files, err := c.read(ctx)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			c.log.Error("cannot use the copy of the rules", "copy", c.where, "error", err)
		}
		return nil
	}
	return files
}

// keep has files written soon, in the place of earlier ones that are still waiting.
func (c *keptCopy) keep(files []rulefile.File) {
	select {
	case <-c.wants:
	default:
	}
	c.wants <- files
}

// run writes what has to be kept, until ctx ends.
func (c *keptCopy) run(ctx context.Context) error {
	var files []rulefile.File // to write; nil: none
	failed := false
	for {
		var again <-chan time.Time
		if files != nil {
			again = time.After(copyEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case files = <-c.wants:
		case <-again:
		}
		limited, cancel := context.WithTimeout(ctx, copyEvery)
		err := c.write(limited, files)
		cancel()
		switch {
		case err == nil:
			c.ok.Set(1)
			files, failed = nil, false
		case ctx.Err() == nil:
			c.ok.Set(0)
			if !failed {
				c.log.Error("cannot save the rules locally; a start without Consul would use the older copy", "copy", c.where, "error", err)
			}
			failed = true
		}
	}
}

// A copy on disk is the manifest, a line with the amendments if it names any, an empty line, and the document. Manifest and
// amendments are JSON, in which no line is empty; that of a manifest has several lines, the last of which begins with }.
var copyBreak = []byte("\n\n")

func readCopy(path string) ([]rulefile.File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	manifest, document, found := bytes.Cut(data, copyBreak)
	if !found {
		return nil, fmt.Errorf("%s is not a copy of rules", path)
	}
	content := versions.Content{Document: document}
	if last := bytes.LastIndexByte(manifest, '\n'); last > 0 && manifest[last+1] == '{' {
		manifest, content.Amendments = manifest[:last], manifest[last+1:]
	}
	v, err := versions.ParseVersion(path, manifest)
	return filesOf(v, content), err
}

// writeCopy replaces the file as a whole.
func writeCopy(path string, files []rulefile.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	head := files[0].Data
	if amendments := files[2].Data; amendments != nil {
		head = slices.Concat(head, []byte("\n"), amendments)
	}
	return rulefile.Replace(path, slices.Concat(head, copyBreak, files[1].Data), 0o600)
}
