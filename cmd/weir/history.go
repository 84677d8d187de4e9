package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

type historyCmd struct {
	Revision   uint64 `arg:"" optional:"" help:"Print the rules of this version."`
	kv         `embed:""`
	cli.Output `embed:""`
}

// Run prints the versions, or the document of one.
func (h *historyCmd) Run(stdout io.Writer) error {
	return h.use(func(ctx context.Context, s store) error {
		if h.Revision != 0 {
			v, err := s.Version(ctx, h.Revision)
			if err != nil {
				return err
			}
			document, err := s.Document(ctx, v)
			if err == nil {
				_, err = stdout.Write(document)
			}
			return err
		}
		versions, damaged := s.History(ctx)
		if len(versions) == 0 && damaged != nil {
			return damaged
		}
		current, err := s.Current(ctx)
		return errors.Join(h.print(stdout, versions, current.Revision), err, damaged)
	})
}

func (h *historyCmd) print(out io.Writer, all []versions.Version, inForce uint64) error {
	if len(all) == 0 && h.Output.Output != "json" {
		_, err := fmt.Fprintln(out, "no rules have been applied")
		return err
	}
	var rows []map[string]any
	for _, v := range all {
		revision, why := strconv.FormatUint(v.Revision, 10), v.Why
		if v.Revision == inForce {
			revision += " *"
		}
		if v.Amends != "" {
			why = v.Amends + ": " + why
		}
		if v.RollbackTo != 0 {
			why = fmt.Sprintf("back to %d: %s", v.RollbackTo, why)
		}
		rows = append(rows, map[string]any{"revision": revision, "when": v.When, "who": v.Who, "why": why})
	}
	return h.Print(out, append([]versions.Version{}, all...), rows, "revision when who why")
}

type rollbackCmd struct {
	Revision uint64 `arg:"" optional:"" help:"Version whose rules come back; default: the one before that in force."`
	change   `embed:""`
}

// Run makes a new version with the rules of an earlier one.
func (r *rollbackCmd) Run(stdout io.Writer, stderr errorWriter) error {
	return r.use(func(ctx context.Context, s store) error {
		current, name, document, err := r.document(ctx, s)
		if err == nil {
			warn(ctx, s, document, stderr)
		}
		switch {
		case r.DryRun && err != nil:
			return err
		case r.DryRun:
			return r.compare(ctx, s, current, name, document, stdout)
		}
		v, err := s.Rollback(ctx, r.Revision, r.by())
		if err != nil {
			return err
		}
		return r.finish(ctx, s, v, stdout, stderr)
	})
}

// document is the one that comes back, and its name.
func (r *rollbackCmd) document(ctx context.Context, s store) (current versions.Version, name string, d *rulefile.Document, err error) {
	if current, err = s.Current(ctx); err != nil {
		return current, "", nil, err
	}
	earlier, err := versions.Earlier(ctx, s, r.Revision, current)
	if err != nil {
		return current, "", nil, err
	}
	text, err := s.Document(ctx, earlier)
	if err != nil {
		return current, "", nil, err
	}
	name = fmt.Sprintf("revision %d", earlier.Revision)
	d, err = versions.Parse(name, text)
	return current, name, d, err
}
