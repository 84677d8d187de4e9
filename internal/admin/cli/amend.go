package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
)

// Override has the commands on overrides of single keys.
type Override struct {
	Set  setOverride   `cmd:"" help:"Set the limit of one key for a time. It is in force everywhere within a second."`
	List listOverrides `cmd:"" help:"List the overrides that were set."`
	Rm   rmOverride    `cmd:"" help:"End an override."`
}

// Candidate has the commands on candidates.
type Candidate struct {
	Set  setCandidate   `cmd:"" help:"Count another limit beside that of a rule, which refuses nothing, for a time."`
	List listCandidates `cmd:"" help:"List the candidates that were set."`
	Rm   rmCandidate    `cmd:"" help:"End a candidate."`
}

// key names a rule and a key of it.
type key struct {
	Rule   string   `arg:"" help:"Name of the rule, as it is written in the rules file."`
	Values []string `arg:"" optional:"" name:"value" help:"A value for each part of the rule's key."`
}

// hashed names a key by its values or its hash.
type hashed struct {
	key  `embed:""`
	Hash string `help:"Hash of the key instead, for a rule with hash: true; weir key prints it."`
}

// change has the flags of commands that change something.
type change struct {
	Installation `embed:""`
	Reason       string `required:"" placeholder:"TEXT" help:"Why: it is kept with the version."`
}

// amends makes a change, and prints what became of it.
func (c *change) amends(out io.Writer, call client.Call) error {
	return c.Use(func(ctx context.Context, to *client.Client) error {
		var amended v1.Amended
		if _, err := to.Do(ctx, call, &amended); err != nil {
			return err
		}
		text := fmt.Sprintf("revision %d: %s", amended.Version.Revision, amended.Version.Amends)
		if amended.Before != "" {
			text += "; before: " + amended.Before
		}
		_, err := io.WriteString(out, safe(text)+"\n")
		return err
	})
}

// until is a time, or how long from now.
type until struct{ time.Time }

// UnmarshalText reads it.
func (u *until) UnmarshalText(text []byte) (err error) {
	if d, wrong := time.ParseDuration(string(text)); wrong == nil {
		u.Time = time.Now().Add(d)
	} else if u.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return errors.New("must be a time, such as 2027-01-31T00:00:00Z, or how long, such as 1h")
	}
	return nil
}

// limit is a limit as JSON: of 50/1m or "50/1m" or an object.
func limit(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		quoted, _ := json.Marshal(text) // a string has no error
		return quoted
	}
	return json.RawMessage(text)
}

type setOverride struct {
	hashed `embed:""`
	change `embed:""`
	Limit  []string `required:"" sep:"none" placeholder:"LIMIT" help:"Its limit, as in the rules file, such as 50/1m; of a rule with limits one for each of them."`
	Until  until    `required:"" placeholder:"TIME" help:"When it ends: a time, or how long from now, such as 1h."`
	Name   string   `help:"Its name, as clients that are refused are told."`
}

// Run sets an override.
func (s *setOverride) Run(stdout io.Writer) error {
	o := amend.Amendment{Rule: s.Rule, Key: s.Values, Hash: s.Hash, Name: s.Name, Until: s.Until.Time, Why: s.Reason}
	if len(s.Limit) == 1 {
		o.Limit = limit(s.Limit[0])
	} else {
		var all []string
		for _, one := range s.Limit {
			all = append(all, string(limit(one)))
		}
		o.Limits = json.RawMessage("[" + strings.Join(all, ",") + "]")
	}
	return s.amends(stdout, client.Call{Method: http.MethodPut, Path: overridesPath, Body: o})
}

const overridesPath, candidatesPath = "/v1/overrides", "/v1/candidates"

type rmOverride struct {
	hashed `embed:""`
	change `embed:""`
}

// Run ends an override.
func (r *rmOverride) Run(stdout io.Writer) error {
	query := url.Values{"rule": {r.Rule}, "key": r.Values, "why": {r.Reason}}
	if r.Hash != "" {
		query.Set("hash", r.Hash)
	}
	return r.amends(stdout, client.Call{Method: http.MethodDelete, Path: overridesPath + "?" + query.Encode()})
}

type listOverrides struct{ listing }

// Run lists the overrides.
func (l *listOverrides) Run(stdout io.Writer) error {
	return l.show(stdout, client.Call{Path: overridesPath}, "items", "rule key|hash=key +name limit|limits=limit until who +when why !problem")
}

type setCandidate struct {
	Rule   string `arg:"" help:"Name of the rule."`
	change `embed:""`
	Limit  string `required:"" placeholder:"LIMIT" help:"The limit to try, as in the rules file, such as 50/1m."`
	Until  until  `required:"" placeholder:"TIME" help:"When it ends: a time, or how long from now, such as 1h."`
}

// Run sets a candidate.
func (s *setCandidate) Run(stdout io.Writer) error {
	return s.amends(stdout, client.Call{Method: http.MethodPut, Path: candidatesPath, Body: amend.Amendment{
		Rule: s.Rule, Limit: limit(s.Limit), Until: s.Until.Time, Why: s.Reason,
	}})
}

type rmCandidate struct {
	Rule   string `arg:"" help:"Name of the rule."`
	change `embed:""`
}

// Run ends a candidate.
func (r *rmCandidate) Run(stdout io.Writer) error {
	query := url.Values{"rule": {r.Rule}, "why": {r.Reason}}
	return r.amends(stdout, client.Call{Method: http.MethodDelete, Path: candidatesPath + "?" + query.Encode()})
}

type listCandidates struct{ listing }

// Run lists the candidates.
func (l *listCandidates) Run(stdout io.Writer) error {
	return l.show(stdout, client.Call{Path: candidatesPath}, "items", "rule limit until who +when why !problem")
}
