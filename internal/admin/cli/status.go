package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/repeat"
)

// lookEvery is the time between two looks.
const lookEvery = time.Second

// Status has the flags of the command that shows the health of an installation.
type Status struct {
	Strict bool `help:"Fail on warnings, too."`
	listing
	watching
}

// Run prints all members, problems and warnings, and fails if there are problems.
func (s *Status) Run(stdout io.Writer) error { return s.watch(stdout, s.print) }

func (s *Status) print(stdout io.Writer) error {
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
			fmt.Fprintf(stdout, "In %s, %s.\n", safe(seen.Of), rules(&seen.InForce))
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
		return "revision " + strconv.FormatUint(r.Revision, 10) + " of the rules is in force"
	case r.Version == "":
		return "no rules are in force"
	}
	return "the rules " + safe(r.Version) + " are in force"
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

// kinds are the kinds of members in sentences, as one and as several.
var kinds = [][3]string{
	{"aggregator", "aggregator replica", "aggregator replicas"}, {"region", "region replica", "region replicas"}, {"pop", "PoP", "PoPs"},
}

// spread says on which members rules of a revision, or newer ones, are in force, and names the others.
func spread(seen *v1.Status, revision uint64) (on string, behind []string) {
	have := map[string]int{}
	for _, name := range seen.Missing {
		behind = append(behind, "region "+name+" (not heard)")
	}
	for i := range seen.Members {
		m := &seen.Members[i]
		why := "not heard"
		switch {
		case m.LastReportMs > v1.MissingAfterMs:
		case m.RulesRevision < revision:
			why = cmp.Or(m.Problem, fmt.Sprint("rules ", m.RulesRevision))
		default:
			have[m.Kind]++
			continue
		}
		behind = append(behind, strings.Join(strings.Fields(m.Kind+" "+m.Region+" "+m.Name), " ")+" ("+why+")")
	}
	var parts []string
	for _, k := range kinds {
		if n := have[k[0]]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", k[min(n, 2)]))
		}
	}
	if last := len(parts) - 1; last > 0 {
		parts = append(parts[:last-1], parts[last-1]+" and "+parts[last])
	}
	return strings.Join(parts, ", "), behind
}

// Wait returns when all members have rules of a revision, or a newer one, but after the given time at the latest. It prints on
// which they are in force, and names the others: the error is [ErrUnwell] then.
func Wait(ctx context.Context, c *client.Client, revision uint64, most time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	on, behind := "", []string(nil)
	for first := true; first || len(behind) > 0; first = false {
		seen, err := look(ctx, c)
		if err != nil && !first {
			break // as of the look before
		}
		if err != nil {
			_, wrong := fmt.Fprintf(out, "Applied. Revision %d is the newest one.\n", revision)
			return cmp.Or(wrong, fmt.Errorf("where revision %d is in force is unknown: %w", revision, err))
		}
		on, behind = spread(seen, revision)
		if len(behind) > 0 && !repeat.Sleep(ctx, lookEvery) {
			break
		}
	}
	text := fmt.Sprintf("Applied. Revision %d is in force on %s.", revision, cmp.Or(on, "no replica and no PoP"))
	if len(behind) > 0 {
		text += " Not in force on: " + strings.Join(behind, ", ") + "."
	}
	if _, err := fmt.Fprintln(out, safe(text)); err != nil || len(behind) == 0 {
		return err
	}
	return ErrUnwell
}
