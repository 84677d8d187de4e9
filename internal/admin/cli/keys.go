package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

// counted names counters.
type counted struct {
	Rule string   `arg:"" help:"Name of the rule, as it is written in the rules file, or of one of those that it is expanded into, such as login@1d."`
	Key  []string `arg:"" optional:"" help:"The key, as top, tap and explain print it; or each of its parts."`
}

// name is how the API names them.
func (k *counted) name() v1.Key { return v1.Key{Rule: k.Rule, Counted: strings.Join(k.Key, "|")} }

// Peek has the flags of the command that prints what counters hold.
type Peek struct {
	counted `embed:""`
	Watch   bool `default:"true" negatable:"" help:"Also what PoPs decide for the key, which takes 3 s."`
	listing
}

// countersColumns are those of counters.
const countersColumns = "rule override|variant=override counted=key unlimited limit remaining out=on_lease out_ms=lease_ends_in reset_ms=new_in until|own_limit=own_limit_until"

// Run prints what the counters of a key hold.
func (p *Peek) Run(stdout io.Writer) error {
	return p.Use(func(ctx context.Context, c *client.Client) error {
		var found v1.Counters
		call := client.Call{Method: http.MethodPost, Path: "/v1/keys:peek", Body: v1.Peek{Key: p.name(), Watch: p.Watch}}
		if _, err := c.Do(ctx, call, &found); err != nil {
			return err
		}
		err := p.Print(stdout, found, found.Items, countersColumns)
		if err == nil && len(found.PoPs) > 0 && p.Output.Output != "json" {
			fmt.Fprintln(stdout)
			err = p.Print(stdout, nil, found.PoPs, "from outcome remaining retry_after_ms=retry_after +rule +override when")
		}
		return err
	})
}

// Reset has the flags of the command that resets counters.
type Reset struct {
	counted `embed:""`
	change  `embed:""`
	Output  `embed:""`
}

// Run resets the counters of a key, and prints what they hold then.
func (r *Reset) Run(stdout io.Writer) error {
	l := listing{r.Installation, r.Output}
	return l.show(stdout, client.Call{Method: http.MethodPost, Path: "/v1/keys:reset", Body: v1.Reset{Key: r.name(), Why: r.Reason}}, "items", countersColumns)
}

// Explain has the flags of the command that tells what becomes of a request.
type Explain struct {
	URL    string            `arg:"" help:"URL of the request, such as https://example.com/v1/a?b=c, or its path."`
	Method string            `short:"X" default:"GET" help:"Its method."`
	Header []string          `short:"H" sep:"none" placeholder:"NAME: VALUE" help:"A header of it; once for each."`
	Client string            `placeholder:"ADDRESS" help:"Address of the peer, as Envoy sees it."`
	Claim  map[string]string `help:"A claim of its token; once for each."`
	SAN    string            `name:"san" help:"Name in the client's certificate."`
	Route  string            `help:"Name of Envoy's route."`
	Region string            `help:"Region of the PoP; default: that of the program that answers."`
	Label  map[string]string `help:"A label of the PoP; once for each."`
	listing
}

// Run prints what each rule in force does with the request. Nothing is counted.
func (e *Explain) Run(stdout io.Writer) error {
	q := v1.Request{
		Method: e.Method, URL: e.URL, Client: e.Client, Claims: e.Claim, SAN: e.SAN, Route: e.Route, Region: e.Region, Labels: e.Label,
		Headers: map[string]string{},
	}
	for _, h := range e.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return fmt.Errorf("--header: %q must be NAME: VALUE", h)
		}
		if before, twice := q.Headers[name]; twice {
			value = before + "," + value
		}
		q.Headers[name] = strings.TrimSpace(value)
	}
	return e.show(stdout, client.Call{Method: http.MethodPost, Path: "/v1/explain", Body: q}, "rules",
		"rule +mode applies failed=fails_at exempt_by override unlimited counted=key cost counters.remaining=remaining counters.limit=limit problem")
}
