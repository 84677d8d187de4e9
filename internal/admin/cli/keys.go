package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

// Peek has the flags of the command that prints what counters hold.
type Peek struct {
	counted `embed:""`
	listing
}

// counted names counters.
type counted struct {
	key     `embed:""`
	Counted string `placeholder:"KEY" help:"The key instead, as top and tap print it: its parts joined by |, or a hash."`
}

// name is how the API names them.
func (k *counted) name() v1.Key { return v1.Key{Rule: k.Rule, Key: k.Values, Counted: k.Counted} }

// Run prints what the counters of a key hold.
func (p *Peek) Run(stdout io.Writer) error {
	return show(p.listing, stdout, client.Call{Method: http.MethodPost, Path: "/v1/keys:peek", Body: p.name()}, counters)
}

// Reset has the flags of the command that resets counters.
type Reset struct {
	counted `embed:""`
	change  `embed:""`
	Output  `embed:""`
}

// Run resets the counters of a key, and prints what they hold then.
func (r *Reset) Run(stdout io.Writer) error {
	call := client.Call{Method: http.MethodPost, Path: "/v1/keys:reset", Body: v1.Reset{Key: r.name(), Why: r.Reason}}
	return show(listing{r.Installation, r.Output}, stdout, call, counters)
}

func counters(all *v1.Counters) (head string, rows [][]any) {
	for i := range all.Items {
		k := &all.Items[i]
		until := ""
		if k.OwnLimit {
			until = "without end"
		}
		if k.Until != nil {
			until = When(*k.Until)
		}
		limit := fmt.Sprint(k.Limit)
		if k.Unlimited {
			limit = "unlimited"
		}
		rows = append(rows, []any{k.Rule, k.Override, k.Counted, limit, k.Remaining, k.Out, forMs(k.OutMS), forMs(k.ResetMS), until})
	}
	return "rule override key limit remaining on_lease lease_ends_in new_in own_limit_until", rows
}

func forMs(ms int64) string { return ago(uint64(max(ms, 0))) }

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
			return errors.New("a header must be NAME: VALUE")
		}
		if before, twice := q.Headers[name]; twice {
			value = before + "," + value
		}
		q.Headers[name] = strings.TrimSpace(value)
	}
	return show(e.listing, stdout, client.Call{Method: http.MethodPost, Path: "/v1/explain", Body: q}, explained)
}

func explained(all *v1.Explanation) (head string, rows [][]any) {
	for i := range all.Rules {
		r := &all.Rules[i]
		var why, left []string
		for _, because := range [][2]string{{"fails at ", r.Failed}, {"exempt by ", r.ExemptBy}, {"override ", r.Override}, {"", r.Problem}} {
			if because[1] != "" {
				why = append(why, because[0]+because[1])
			}
		}
		if r.Unlimited {
			why = append(why, "unlimited")
		}
		for j := range r.Counters {
			left = append(left, fmt.Sprintf("%d/%d", r.Counters[j].Remaining, r.Counters[j].Limit))
		}
		applies, cost := "no", ""
		if r.Applies {
			applies, cost = "yes", fmt.Sprint(r.Cost)
		}
		rows = append(rows, []any{r.Rule, r.Mode, applies, strings.Join(why, "; "), r.Counted, cost, strings.Join(left, " ")})
	}
	return "rule +mode applies why key cost remaining/limit", rows
}
