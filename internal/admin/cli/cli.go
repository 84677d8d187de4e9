// Package cli has the commands of weir that call the admin API, and how they print.
//
//	cli.go       whom to call, and how answers are printed
//	versions.go  the rules of an installation, as commands use those in Consul
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/weirlimit/weir/internal/admin/client"
)

// ErrUnwell fails a command that did what it should, and has printed what is not as it should be.
var ErrUnwell = errors.New("something is not as it should be")

// callTime bounds the calls of a command.
const callTime = 30 * time.Second

// Installation has the flags of commands that call the admin API.
type Installation struct {
	Context string `env:"WEIR_CONTEXT" placeholder:"NAME" help:"Installation, as weir contexts lists them; default: the current one."`
	Admin   string `placeholder:"HOST:PORT" help:"Admin port without TLS and tokens, in place of a context."`
}

// Use runs calls, which end with ctx.
func (i *Installation) Use(calls func(ctx context.Context, c *client.Client) error) error {
	return i.follow(callTime, calls)
}

// follow runs calls that end after a time, or when the user interrupts them.
func (i *Installation) follow(time time.Duration, calls func(ctx context.Context, c *client.Client) error) error {
	c, err := client.Open(i.Context, i.Admin)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	interrupted := ctx
	ctx, cancel := context.WithTimeout(ctx, time)
	defer cancel()
	if err = calls(ctx, c); interrupted.Err() != nil {
		return nil
	}
	return err
}

// Output has the flag of commands that print tables.
type Output struct {
	Output string `short:"o" enum:"table,wide,json" default:"table" help:"How to print: as a table, as a wide one with further columns, or as json for programs."`
}

// Print prints an answer, as rows of cells below a head or as JSON. The titles of the head are parted by blanks; one that
// begins with + is in wide tables alone.
func (o *Output) Print(out io.Writer, answer any, head string, rows [][]any) error {
	if o.Output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	}
	titles := strings.Fields(head)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cell func(i int) string) {
		var cells []string
		for i, title := range titles {
			if o.Output == "wide" || title[0] != '+' {
				cells = append(cells, cell(i))
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	line(func(i int) string { return strings.ReplaceAll(strings.TrimPrefix(titles[i], "+"), "_", " ") })
	for _, row := range rows {
		line(func(i int) string { return Safe(fmt.Sprint(row[i])) })
	}
	return table.Flush()
}

// Safe is a text in one line, in which what a terminal does not print is escaped: whoever sends requests chooses keys.
func Safe(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// When is a time as tables have it.
func When(t time.Time) string { return t.Format(time.DateTime) }
