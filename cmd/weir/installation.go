package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

// callTime bounds the calls of a command.
const callTime = 30 * time.Second

// installation has the flags of commands that call the admin API.
type installation struct {
	Context string `env:"WEIR_CONTEXT" placeholder:"NAME" help:"Installation, as weir contexts lists them; default: the current one."`
	Admin   string `placeholder:"HOST:PORT" help:"Admin port without TLS and tokens, in place of a context."`
}

// use runs calls, which end with ctx.
func (i *installation) use(calls func(ctx context.Context, c *client.Client) error) error {
	c, err := client.Open(i.Context, i.Admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return calls(ctx, c)
}

type contextsCmd struct{}

// Run lists the installations, without their tokens.
func (contextsCmd) Run(stdout io.Writer) error {
	f, err := client.Load()
	if err != nil {
		return err
	}
	current, _ := f.Find("") // none is marked then
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "context\turl\tcaller")
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
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, c.URL, caller)
	}
	return table.Flush()
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
	installation `embed:""`
	Limit        int    `default:"20" help:"Most entries, 1 to 100."`
	Before       string `placeholder:"ID" help:"Only entries before this one."`
	Output       string `short:"o" enum:"table,json" default:"table" help:"How to print them: as a table, or as json for programs."`
}

// Run prints who changed what, the newest first.
func (a *auditCmd) Run(stdout io.Writer) error {
	return a.use(func(ctx context.Context, c *client.Client) error {
		var page v1.Audit
		query := url.Values{"limit": {fmt.Sprint(a.Limit)}, "before": {a.Before}}
		if _, err := c.Do(ctx, client.Call{Path: "/v1/audit?" + query.Encode()}, &page); err != nil {
			return err
		}
		if a.Output == "json" {
			out := json.NewEncoder(stdout)
			out.SetEscapeHTML(false)
			out.SetIndent("", "  ")
			return out.Encode(page)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "when\twho\twhat\ton\tbefore\tafter\twhy")
		for _, e := range page.Items {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.When.Format(time.DateTime), e.Who, e.What, e.On, oneLine(e.Before), oneLine(e.After), oneLine(e.Why))
		}
		return table.Flush()
	})
}

// oneLine is a text without line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

type forgetCmd struct {
	Region       string `arg:"" help:"Name of the region that is gone for good."`
	installation `embed:""`
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
	return f.use(func(ctx context.Context, c *client.Client) error {
		answer, err := c.Send(ctx, client.Call{Method: http.MethodPost, Path: "/regions/" + url.PathEscape(f.Region) + "/dead"})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(stdout, io.LimitReader(answer.Body, mostPrinted))
		return err
	})
}
