package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fatih/color"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
)

// Top has the flags of the command that shows what comes most.
type Top struct {
	listing
	watching
	By      string `enum:"key,denied,rule" default:"key" help:"What to count: keys, keys that are rejected, or rules: key, denied or rule."`
	Denied  bool   `help:"The same as --by denied."`
	Limit   int    `default:"20" help:"Most rows, 1 to 512."`
	EachPop bool   `name:"each-pop" help:"Count each PoP apart; of all regions each region."`
}

// Run shows what comes most.
func (t *Top) Run(stdout io.Writer) error {
	if t.Denied {
		t.By = "denied"
	}
	query := url.Values{"by": {t.By}, "limit": {strconv.Itoa(t.Limit)}, "each_pop": {strconv.FormatBool(t.EachPop)}}
	list, columns := "keys", "rule override key from per_second=requests/s +over=at_most_too_large_by"
	if t.By == "rule" {
		list, columns = "rules", "rule used=demand admitted_per_second=admitted/s denied_per_second=rejected/s shadow_denied=would_be_rejected +matched +no_key +admitted +denied=rejected hint"
	}
	return t.watch(stdout, func(out io.Writer) error {
		return t.show(out, client.Call{Path: "/v1/top?" + query.Encode()}, list, columns)
	})
}

// watchEvery is the time between two answers of a command with --watch.
const watchEvery = 2 * time.Second

// watching has the flag of commands that can print their answer again and again.
type watching struct {
	Watch bool `short:"w" help:"Print it again every 2 s, until Ctrl-C."`
}

// watch prints once or, with --watch, until that fails. A terminal shows the newest answer alone.
func (w *watching) watch(out io.Writer, print func(io.Writer) error) error {
	if !w.Watch {
		return print(out)
	}
	clear := "\x1b[H\x1b[2J"
	if color.NoColor { // no terminal
		clear = ""
	}
	for {
		var text bytes.Buffer
		err := print(&text)
		if errors.Is(err, ErrUnwell) {
			err = nil
		}
		_, lost := fmt.Fprintln(out, clear+text.String())
		if err = cmp.Or(err, lost); err != nil {
			return err
		}
		time.Sleep(watchEvery)
	}
}

// Tap has the flags of the command that prints single decisions.
type Tap struct {
	Installation `embed:""`
	Rule         string `predictor:"rule" help:"Only of this rule."`
	Key          string `help:"Only of this key, its parts joined by |."`
	Outcome      string `enum:",admitted,rejected,fallback,would-be-rejected" default:"" help:"Only these: admitted, rejected, fallback (on_failure decided) or would-be-rejected (by a rule on trial)."`
	PerSecond    int    `default:"10" help:"Most decisions a second, 1 to 1000; of more chance picks."`
	For          Span   `default:"1m" help:"For how long."`
	Output       string `short:"o" enum:"text,json" default:"text" help:"How to print: as lines of text, or each as a line of json for programs."`
}

// Run prints decisions as they are made.
func (t *Tap) Run(stdout io.Writer) error {
	query := url.Values{"status": {"false"}, "tap": {"true"}, "per_second": {strconv.Itoa(t.PerSecond)}}
	for name, value := range map[string]string{"rule": t.Rule, "key": t.Key, "outcome": t.Outcome} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return t.follow(time.Duration(t.For), func(ctx context.Context, c *client.Client) error {
		err := c.Events(ctx, "/v1/stream?"+query.Encode(), func(event string, data []byte) error { return t.print(stdout, event, data) })
		if ctx.Err() != nil { // the time is over
			return nil
		}
		return err
	})
}

func (t *Tap) print(out io.Writer, event string, data []byte) (err error) {
	var found v1.Decisions
	switch event {
	case v1.EventProblem:
		p := new(v1.Problem)
		if err = json.Unmarshal(data, p); err == nil {
			err = p
		}
	case v1.EventDecisions:
		err = json.Unmarshal(data, &found)
	}
	for i := range found.Items {
		if err == nil {
			_, err = io.WriteString(out, t.line(&found.Items[i]))
		}
	}
	return err
}

func (t *Tap) line(d *v1.Decision) string {
	if t.Output == "json" {
		text, _ := encode(d, "") // it was JSON
		return text
	}
	line := fmt.Sprintf("%s  %-17s  %s  %s  %s", d.When.Local().Format("15:04:05.000Z07:00"), cell("outcome", d.Outcome), d.From, d.Rule, d.Key)
	if d.Override != "" {
		line += "  override " + d.Override
	}
	if d.RetryAfterMs > 0 {
		line += "  retry after " + ago(d.RetryAfterMs)
	} else {
		line += fmt.Sprint("  remaining ", d.Remaining)
	}
	return paint(colours[cell("outcome", d.Outcome)], safe(strings.TrimSpace(line))) + "\n"
}
