package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// waitTime is how long a new version may take to be in force everywhere.
	waitTime = 15 * time.Second
	// lookEvery is the time between two looks.
	lookEvery = time.Second
)

// Status has the flags of the command that shows the health of an installation.
type Status struct {
	Strict bool `help:"Fail on warnings, too."`
	listing
}

// Run prints all members, problems and warnings, and fails if there are problems.
func (s *Status) Run(stdout io.Writer) error {
	return s.Use(func(ctx context.Context, c *client.Client) error {
		seen, err := look(ctx, c)
		if err != nil {
			return err
		}
		warnings, err := warn(ctx, c, seen)
		if err != nil {
			return err
		}
		of, members := remarks(seen)
		if s.Output.Output != "json" {
			fmt.Fprintf(stdout, "%s; %s are in force\n", safe(seen.Of), rules(&seen.InForce))
			for _, r := range of {
				fmt.Fprintln(stdout, safe(r.About+" "+r.Name+" "+r.Reason))
			}
		}
		answer := struct {
			*v1.Status
			Warnings []remark `json:"warnings"`
		}{seen, warnings}
		err = s.Print(stdout, answer, seen.Members, "kind region name +workers +version rules_revision|rules_version=rules +rules_version +rules_age_ms=rules_since "+
			"age_ms=age +last_report_ms=heard_ago reserve_per_mille=reserve +keys +places +redis +holder +error=last_error +error_age_ms=error_ago problem")
		if err == nil && len(warnings) > 0 && s.Output.Output != "json" {
			fmt.Fprintln(stdout)
			err = s.Print(stdout, nil, warnings, "name=warning_about reason +page")
		}
		if err == nil && (len(of)+len(members) > 0 || s.Strict && len(warnings) > 0) {
			err = ErrUnwell
		}
		return err
	})
}

// look is the status, once everybody had the time to report.
func look(ctx context.Context, c *client.Client) (seen *v1.Status, err error) {
	_, err = c.Do(ctx, client.Call{Path: "/v1/status"}, &seen)
	return seen, err
}

// rules names rules: by their revision, if they have one.
func rules(r *v1.InForce) string {
	switch {
	case r.Revision > 0:
		return "rules " + strconv.FormatUint(r.Revision, 10)
	case r.Version == "":
		return "no rules"
	}
	return "rules " + safe(r.Version)
}

// remark is one thing that is not well, or likely not meant.
type remark struct {
	About  string `json:"about"` // pop, region, aggregator, rule or rules
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Page   string `json:"page,omitempty"` // explains it
}

// remarks are what is not well: of the installation, and of its members.
func remarks(seen *v1.Status) (of, members []remark) {
	if seen.InForce.Problem != "" {
		of = append(of, remark{About: "rules", Reason: "newer ones are not in force: " + seen.InForce.Problem})
	}
	for _, name := range seen.Missing {
		of = append(of, remark{About: "region", Name: name, Reason: "has not been heard"})
	}
	for i := range seen.Members {
		if m := &seen.Members[i]; m.Problem != "" {
			members = append(members, remark{About: m.Kind, Name: strings.TrimSpace(m.Region + " " + m.Name), Reason: m.Problem})
		}
	}
	return of, members
}

// hints are those of a rule's use, for people.
var hints = map[string]string{
	v1.HintMatchedNothing: "no request matched it since the PoPs started",
	v1.HintKeyMissing:     "no request that matched it had its key, so that it limits nothing",
}

// warn finds what is likely not meant in the rules in force, by their use and their text.
func warn(ctx context.Context, c *client.Client, seen *v1.Status) ([]remark, error) {
	found := []remark{} // never nil
	for _, u := range seen.Rules {
		if u.Hint != "" {
			found = append(found, remark{About: "rule", Name: u.Rule, Reason: hints[u.Hint]})
		}
	}
	var rules v1.Rules
	if _, err := c.Do(ctx, client.Call{Path: rulesPath}, &rules); err != nil {
		return nil, err
	}
	var checked v1.Validated
	call := client.Call{Method: http.MethodPost, Path: rulesPath + ":validate", Body: v1.Document{Document: rules.Document}}
	_, err := c.Do(ctx, call, &checked)
	for _, f := range checked.Findings {
		found = append(found, remark{"rules", f.Path, f.Reason, f.Page})
	}
	return found, err
}

// Wait returns when all members have rules of a revision, or a newer one, and else names those that have not.
func Wait(ctx context.Context, c *client.Client, revision uint64, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		seen, err := look(ctx, c)
		if err != nil {
			return fmt.Errorf("who has revision %d is unknown: %w", revision, err)
		}
		var behind []string
		for _, name := range seen.Missing {
			behind = append(behind, "region "+name+": not heard")
		}
		for i := range seen.Members {
			if m := &seen.Members[i]; m.RulesRevision < revision || m.LastReportMs > v1.MissingAfterMs {
				behind = append(behind, fmt.Sprintf("%s %s %s, with rules %d: %s", m.Kind, m.Region, m.Name, m.RulesRevision, m.Problem))
			}
		}
		if len(behind) == 0 {
			_, err = fmt.Fprintf(out, "it is in force at all members of %s: %d\n", safe(seen.Of), len(seen.Members))
			return err
		}
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < 2*lookEvery || !repeat.Sleep(ctx, lookEvery) {
			for _, one := range behind {
				fmt.Fprintln(out, "not in force:", safe(one))
			}
			return ErrUnwell
		}
	}
}
