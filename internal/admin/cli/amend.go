package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
)

// Override has the commands on overrides, each of which is the limit of one key.
type Override struct {
	amendments `embed:""`
}

// Candidate has the commands on candidates, limits that are counted beside those of rules, and reject nothing.
type Candidate struct {
	amendments `embed:""`
}

// amendments are the commands on one kind of entries.
type amendments struct {
	Set  setAmendment   `cmd:"" help:"Set an override or a candidate for a time. It is in force everywhere within a second."`
	List listAmendments `cmd:"" help:"List those that were set, and by whom."`
	Rm   rmAmendment    `cmd:"" help:"End one before its time."`
}

// kind is the path of the operations on a kind of entries.
type kind string

const overrides, candidates kind = "/v1/overrides", "/v1/candidates"

// AfterApply has the commands use overrides.
func (*Override) AfterApply(c *kong.Context) error { c.Bind(overrides); return nil }

// AfterApply has the commands use candidates.
func (*Candidate) AfterApply(c *kong.Context) error { c.Bind(candidates); return nil }

// of names an entry.
type of struct {
	Rule   string   `arg:"" predictor:"rule" help:"Name of the rule, as it is written in the rules file."`
	Values []string `arg:"" optional:"" name:"value" help:"Of an override a value for each part of the rule's key."`
	Hash   string   `help:"Hash of the key instead, for a rule with hash: true; weir keys hash prints it."`
}

// change has the flags of commands that change something.
type change struct {
	Installation `embed:""`
	Reason       string `required:"" placeholder:"TEXT" help:"Why: it is kept with the version."`
}

// amends makes a change, and prints what became of it.
func (c *change) amends(out io.Writer, as Format, call client.Call) error {
	return c.Use(func(ctx context.Context, to *client.Client) error {
		var amended v1.Amended
		if _, err := to.Do(ctx, call, &amended); err != nil {
			return err
		}
		text := fmt.Sprintf("Applied. Revision %d: %s.", amended.Version.Revision, amended.Version.Amends)
		if amended.Before != "" {
			text += " Before: " + amended.Before + "."
		}
		return as.Print(out, amended, safe(text)+"\n")
	})
}

// limitJSON is a limit as JSON: of 50/1m or "50/1m" or an object.
func limitJSON(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		quoted, _ := json.Marshal(text) // a string has no error
		return quoted
	}
	return json.RawMessage(text)
}

type setAmendment struct {
	of     `embed:""`
	change `embed:""`
	Limit  []string `required:"" sep:"none" placeholder:"LIMIT" help:"The limit, as in the rules file, such as 50/1m; for an override of a rule with limits one for each of them."`
	Until  End      `required:"" placeholder:"TIME" help:"When it ends: how long from now, such as 1h or 7d, or a time, such as 2026-12-04 or 2026-12-04T18:00, at most 30 days ahead."`
	Name   string   `help:"Name of an override, as clients that are rejected are told."`
	Format `embed:""`
}

// Run sets an entry.
func (s *setAmendment) Run(stdout io.Writer, k kind) error {
	o := amend.Amendment{Rule: s.Rule, Key: s.Values, Hash: s.Hash, Name: s.Name, Until: s.Until.UTC(), Why: s.Reason}
	if len(s.Limit) == 1 {
		o.Limit = limitJSON(s.Limit[0])
	} else {
		var all []string
		for _, one := range s.Limit {
			all = append(all, string(limitJSON(one)))
		}
		o.Limits = json.RawMessage("[" + strings.Join(all, ",") + "]")
	}
	return s.amends(stdout, s.Format, client.Call{Method: http.MethodPut, Path: string(k), Body: o})
}

type rmAmendment struct {
	of     `embed:""`
	change `embed:""`
	Format `embed:""`
}

// Run ends an entry.
func (r *rmAmendment) Run(stdout io.Writer, k kind) error {
	query := url.Values{"rule": {r.Rule}, "key": r.Values, "why": {r.Reason}}
	if r.Hash != "" {
		query.Set("hash", r.Hash)
	}
	return r.amends(stdout, r.Format, client.Call{Method: http.MethodDelete, Path: string(k) + "?" + query.Encode()})
}

type listAmendments struct{ listing }

// Run lists the entries.
func (l *listAmendments) Run(stdout io.Writer, k kind) error {
	return l.show(stdout, client.Call{Path: string(k)}, "items", "rule key|hash=key +name limit|limits=limit until who +when why problem")
}
