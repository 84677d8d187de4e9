package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/cli"
)

type tokenCmd struct {
	Name       string  `arg:"" help:"Who gets it, as the audit shall have it."`
	Role       string  `required:"" enum:"viewer,operator,admin" help:"What it allows: viewer, operator or admin."`
	Prefix     string  `placeholder:"TEXT" help:"Allow changes of rules only whose names begin so."`
	Until      cli.End `placeholder:"TIME" help:"When it ends, such as 90d or 2027-01-31."`
	cli.Format `embed:""`
}

// Validate returns a mistake in the command line.
func (t *tokenCmd) Validate() error {
	if !access.IsName(t.Name) {
		return errors.New("the name must have 1 to 64 letters, digits and . _ - @ +")
	}
	return nil
}

// tokenItem is the item of the file of tokens.
type tokenItem struct {
	Name   string    `json:"name"`
	Role   string    `json:"role"`
	Prefix string    `json:"prefix,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	SHA256 string    `json:"sha256"`
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
	answer := map[string]any{"token": token, "item": tokenItem{t.Name, t.Role, t.Prefix, t.Until.Time, sum}}
	return t.Print(stdout, answer, fmt.Sprintf("%s\n# the token is above, and is nowhere else; below is its item for tokens: in the file of --admin-tokens\n- %ssha256: %q }\n", token, item, sum))
}

type forgetCmd struct {
	Region           string `arg:"" help:"Name of the region that is gone for good. The installation is an aggregator: any of those on one store."`
	cli.Installation `embed:""`
}

// Run declares the region dead at an aggregator.
func (f *forgetCmd) Run(stdout io.Writer) error {
	return f.Use(func(ctx context.Context, c *client.Client) error {
		_, err := c.Do(ctx, client.Call{Method: http.MethodPost, Path: "/v1/regions:forget", Body: v1.Region{Region: f.Region}}, nil)
		if p := new(v1.Problem); errors.As(err, &p) && p.Code == v1.CodeUnknown {
			return errors.New("the installation is a region, which withholds nothing for other regions; name an aggregator by --admin or --context")
		}
		if err == nil {
			_, err = fmt.Fprintf(stdout, "nothing is withheld for region %s any more\n", f.Region)
		}
		return err
	})
}

// askTime bounds an answer of a program: what does not answer within it is not healthy.
const askTime = 5 * time.Second

// mostPrinted bounds what is printed of an answer, in bytes.
const mostPrinted = 4096

type healthcheckCmd struct {
	URL string `arg:"" help:"What to ask, such as http://127.0.0.1:8090/readyz."`
}

// Run asks once. Images without a shell and without curl use it as their health check.
func (h *healthcheckCmd) Run(stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostPrinted))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", h.URL, answer.Status, strings.TrimSpace(string(text)))
	}
	_, err = stdout.Write(text)
	return err
}
