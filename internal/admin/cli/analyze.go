package cli

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

// Analyze has the flags of the command that says what is likely not meant about a running system.
type Analyze struct{ listing }

// remark is one thing that is likely not meant.
type remark struct {
	About  string `json:"about"` // member, rule or rules
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Page   string `json:"page,omitempty"` // explains it
}

// hints are those of a rule's use, for people.
var hints = map[string]string{
	v1.HintMatchedNothing: "no request matched it since the PoPs started",
	v1.HintKeyMissing:     "no request that matched it had its key, so that it limits nothing",
}

// Run prints what is likely not meant, and fails if there is anything.
func (a *Analyze) Run(stdout io.Writer) error {
	return a.Use(func(ctx context.Context, c *client.Client) error {
		seen, err := look(ctx, c)
		if err != nil {
			return err
		}
		found := append([]remark{}, remarks(seen)...)
		var rules v1.Rules
		if _, err := c.Do(ctx, client.Call{Path: rulesPath}, &rules); err != nil {
			return err
		}
		var checked v1.Validated
		call := client.Call{Method: http.MethodPost, Path: rulesPath + ":validate", Body: v1.Document{Document: rules.Document}}
		if _, err := c.Do(ctx, call, &checked); err != nil {
			return err
		}
		for _, f := range checked.Findings {
			found = append(found, remark{"rules", f.Path, f.Reason, f.Page})
		}
		var rows [][]any
		for _, r := range found {
			rows = append(rows, []any{r.About, r.Name, r.Reason, r.Page})
		}
		if err = a.Print(stdout, found, "about name reason +page", rows); err == nil && len(found) > 0 {
			err = ErrUnwell
		}
		return err
	})
}

// remarks are those about members, and about what rules did.
func remarks(seen *v1.Status) (found []remark) {
	if seen.InForce.Problem != "" {
		found = append(found, remark{About: "rules", Reason: "newer ones are not in force: " + seen.InForce.Problem})
	}
	for _, name := range seen.Silent {
		found = append(found, remark{About: "region", Name: name, Reason: "has not been heard"})
	}
	for i := range seen.Members {
		m := &seen.Members[i]
		for _, p := range problems(m, newest(seen)) {
			found = append(found, remark{About: m.Kind, Name: strings.TrimSpace(m.Region + " " + m.Name), Reason: p})
		}
	}
	for _, u := range seen.Rules {
		if u.Hint != "" {
			found = append(found, remark{About: "rule", Name: u.Rule, Reason: hints[u.Hint]})
		}
	}
	return found
}
