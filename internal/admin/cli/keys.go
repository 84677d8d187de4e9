package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
)

// counted names counters.
type counted struct {
	Rule string   `arg:"" predictor:"rule" help:"Name of the rule, as it is written in the rules file, or of one of those that it is expanded into, such as login@1d."`
	Key  []string `arg:"" optional:"" help:"The key, as top, tap and explain print it; or each of its parts."`
}

// name is how the API names them.
func (k *counted) name() v1.Key { return v1.Key{Rule: k.Rule, Counted: strings.Join(k.Key, "|")} }

// Peek has the flags of the command that prints what counters hold.
type Peek struct {
	counted `embed:""`
	PoPs    bool `name:"pops" default:"true" negatable:"" help:"Also what PoPs decide for the key, which takes 3 s."`
	listing
}

// countersColumns are those of counters.
const countersColumns = "rule override|variant=override counted=key unlimited limit remaining out=on_lease out_ms=leases_end_in blocked retry_after_ms=free_in reset_ms=all_free_in until|own_limit=override_ends"

// Run prints what the counters of a key hold.
func (p *Peek) Run(stdout io.Writer) error {
	return p.Use(func(ctx context.Context, c *client.Client) error {
		var found v1.Counters
		call := client.Call{Method: http.MethodPost, Path: "/v1/keys:peek", Body: v1.Peek{Key: p.name(), Watch: p.PoPs}}
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
