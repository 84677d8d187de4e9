package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

type contextsCmd struct{}

// Run lists the installations, without their tokens.
func (contextsCmd) Run(stdout io.Writer) error {
	f, err := client.Load()
	if err != nil {
		return err
	}
	current, _ := f.Find("") // none is marked then
	var rows [][]any
	for _, c := range f.Contexts {
		caller := "nobody"
		switch {
		case c.Token != "" || c.TokenFile != "":
			caller = "token"
		case c.Cert != "":
			caller = "certificate"
		}
		if c.Name == current.Name {
			c.Name += " *"
		}
		rows = append(rows, []any{c.Name, c.URL, caller})
	}
	return (&cli.Output{}).Print(stdout, nil, "context url caller", rows)
}

type tokenCmd struct {
	Name   string    `arg:"" help:"Who gets it, as the audit shall have it."`
	Role   string    `required:"" enum:"viewer,operator,admin" help:"What it allows: viewer, operator or admin."`
	Prefix string    `placeholder:"TEXT" help:"Allow changes of rules only whose names begin so."`
	Until  time.Time `format:"2006-01-02T15:04:05Z07:00" placeholder:"TIME" help:"When it ends, such as 2027-01-31T00:00:00Z."`
}

// Validate returns a mistake in the command line.
func (t *tokenCmd) Validate() error {
	if !access.IsName(t.Name) {
		return errors.New("the name must have 1 to 64 letters, digits and . _ - @ +")
	}
	return nil
}

// Run prints a token, and the item of the file of tokens that it needs.
func (t *tokenCmd) Run(stdout io.Writer) error {
	token, sum := access.NewToken()
	item := fmt.Sprintf("{ name: %q, role: %s, ", t.Name, t.Role)
	if t.Prefix != "" {
		item += fmt.Sprintf("prefix: %q, ", t.Prefix)
	}
	if !t.Until.IsZero() {
		item += fmt.Sprintf("until: %q, ", t.Until.Format(time.RFC3339))
	}
	_, err := fmt.Fprintf(stdout, "%s\n# the token is above, and is nowhere else; below is its item for tokens: in the file of --admin-tokens\n- %ssha256: %q }\n", token, item, sum)
	return err
}

type auditCmd struct {
	cli.Installation `embed:""`
	Limit            int    `default:"20" help:"Most entries, 1 to 100."`
	Before           string `placeholder:"ID" help:"Only entries before this one."`
	cli.Output       `embed:""`
}

// Run prints who changed what, the newest first.
func (a *auditCmd) Run(stdout io.Writer) error {
	return a.Use(func(ctx context.Context, c *client.Client) error {
		var page v1.Audit
		query := url.Values{"limit": {fmt.Sprint(a.Limit)}, "before": {a.Before}}
		if _, err := c.Do(ctx, client.Call{Path: "/v1/audit?" + query.Encode()}, &page); err != nil {
			return err
		}
		var rows [][]any
		for _, e := range page.Items {
			rows = append(rows, []any{cli.When(e.When), e.Who, e.What, e.On, oneLine(e.Before), oneLine(e.After), oneLine(e.Why)})
		}
		return a.Print(stdout, page, "when who what on before after why", rows)
	})
}

// oneLine is a text without line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

type forgetCmd struct {
	Region           string `arg:"" help:"Name of the region that is gone for good."`
	cli.Installation `embed:""`
}

// Validate returns a mistake in the command line.
func (f *forgetCmd) Validate() error {
	if f.Admin == "" && f.Context == "" {
		return errors.New("--admin or --context is missing; name an aggregator: any of those on one store")
	}
	return nil
}

// Run declares the region dead at an aggregator.
func (f *forgetCmd) Run(stdout io.Writer) error {
	return f.Use(func(ctx context.Context, c *client.Client) error {
		answer, err := c.Send(ctx, client.Call{Method: http.MethodPost, Path: "/regions/" + url.PathEscape(f.Region) + "/dead"})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(stdout, io.LimitReader(answer.Body, mostPrinted))
		return err
	})
}
