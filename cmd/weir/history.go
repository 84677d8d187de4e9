package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/versions"
)

type historyCmd struct {
	Revision uint64 `arg:"" optional:"" help:"Print the rules of this version."`
	kv       `embed:""`
	Output   string `short:"o" enum:"table,json" default:"table" help:"How to print the list: as a table, or as json for programs."`
}

// Run prints the versions, or the document of one.
func (h *historyCmd) Run(stdout io.Writer) error {
	return h.use(func(ctx context.Context, s *versions.Store) error {
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
	if h.Output == "json" {
		text, err := json.MarshalIndent(append([]versions.Version{}, all...), "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", text)
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no rules have been applied")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "revision\twhen\twho\twhy")
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", revision, v.When.Format(time.DateTime), v.Who, strings.Join(strings.Fields(why), " "))
	}
	return table.Flush()
}

type rollbackCmd struct {
	Revision uint64 `arg:"" optional:"" help:"Version whose rules come back; default: the one before that in force."`
	change   `embed:""`
}

// Run makes a new version with the rules of an earlier one.
func (r *rollbackCmd) Run(stdout io.Writer, stderr errorWriter) error {
	return r.use(func(ctx context.Context, s *versions.Store) error {
		if r.DryRun {
			return r.dryRun(ctx, s, stdout)
		}
		v, err := s.Rollback(ctx, r.Revision, r.by())
		if err != nil {
			return err
		}
		return finish(ctx, s, v, stdout, stderr)
	})
}

func (r *rollbackCmd) dryRun(ctx context.Context, s *versions.Store, stdout io.Writer) error {
	current, err := s.Current(ctx)
	if err != nil {
		return err
	}
	earlier, err := s.Earlier(ctx, r.Revision, current)
	if err != nil {
		return err
	}
	document, err := s.Document(ctx, earlier)
	if err != nil {
		return err
	}
	return compare(ctx, s, current, fmt.Sprintf("version %d", earlier.Revision), document, stdout)
}
