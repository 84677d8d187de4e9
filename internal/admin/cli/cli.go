// Package cli has the commands of weir that call the admin API, and how they print.
//
//	cli.go       whom to call, and how answers are printed
//	versions.go  the rules of an installation, as commands use those in Consul
//	watch.go     members, what comes most, single decisions
//	keys.go      requests and counters of keys
//	amend.go     overrides and candidates
//	analyze.go   what is likely not meant
//	debug.go     an archive
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

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
		return encode(out, answer, "  ")
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
		line(func(i int) string { return safe(fmt.Sprint(row[i])) })
	}
	return table.Flush()
}

// listing has the flags of commands that print what a call answers.
type listing struct {
	Installation `embed:""`
	Output       `embed:""`
}

// show makes a call, and prints the answer: the head and the rows that it makes.
func show[T any](l listing, out io.Writer, call client.Call, table func(*T) (head string, rows [][]any)) error {
	return l.Use(func(ctx context.Context, c *client.Client) error { return showBy(ctx, c, &l.Output, out, call, table) })
}

// showBy is show by a client.
func showBy[T any](ctx context.Context, c *client.Client, o *Output, out io.Writer, call client.Call, table func(*T) (head string, rows [][]any)) error {
	answer := new(T)
	if _, err := c.Do(ctx, call, answer); err != nil {
		return err
	}
	head, rows := table(answer)
	return o.Print(out, answer, head, rows)
}

// safe is a text in one line, in which what a terminal does not print is escaped: whoever sends requests chooses keys.
func safe(text string) string { return escaped(text, "") }

// escaped escapes what a terminal does not print, as JSON does, but for these runes.
func escaped(text, but string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || strings.ContainsRune(but, r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// encode writes a value as JSON.
func encode(out io.Writer, value any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(out, escaped(text.String(), "\n"))
	return err
}

// When is a time as tables have it.
func When(t time.Time) string { return t.Format(time.DateTime) }
