// Package cli has the commands of weir that call the admin API, and prints their answers.
//
//	cli.go       the address of the API, and the names of rules for completion
//	table.go     tables, and their colours on a terminal
//	when.go      times on the command line
//	versions.go  versions of the rules
//	status.go    members and warnings
//	watch.go     busiest keys, single decisions, answers again and again
//	keys.go      counters of keys
//	explain.go   decisions on a request
//	amend.go     overrides and candidates
//	debug.go     the debug archive
//	mistakes.go  errors of the API in terms of the command line
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// ErrUnwell fails a command that did what it should, and has printed what is not as it should be.
var ErrUnwell = errors.New("the installation has problems")

// callTime bounds the calls of a command.
const callTime = 30 * time.Second

// Installation has the flags of commands that call the admin API.
type Installation struct {
	Context string `env:"WEIR_CONTEXT" placeholder:"NAME" help:"Installation, as contexts.yaml names them; default: the current one."`
	Admin   string `placeholder:"HOST:PORT" help:"Admin port without TLS and tokens, in place of a context."`
}

// Use runs calls, which end with ctx.
func (i *Installation) Use(calls func(ctx context.Context, c *client.Client) error) error {
	return i.follow(callTime, calls)
}

// follow runs calls that end after a time.
func (i *Installation) follow(time time.Duration, calls func(ctx context.Context, c *client.Client) error) error {
	c, err := client.Open(i.Context, i.Admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time)
	defer cancel()
	return asFlags(calls(ctx, c))
}

// listing has the flags of commands that print what a call answers.
type listing struct {
	Installation `embed:""`
	Output       `embed:""`
}

// show makes a call, and prints a list of the answer, as [Output.Print] does.
func (l *listing) show(out io.Writer, call client.Call, list, columns string) error {
	return l.Use(func(ctx context.Context, c *client.Client) error {
		var answer json.RawMessage
		if _, err := c.Do(ctx, call, &answer); err != nil {
			return err
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(answer, &fields); err != nil {
			return err
		}
		return l.Print(out, answer, fields[list], columns)
	})
}

// Audit has the flags of the command that lists who changed what.
type Audit struct {
	Limit   int    `default:"20" help:"Most entries, 1 to 100."`
	Before  string `placeholder:"ID" help:"Only entries before this one."`
	listing `embed:""`
}

// Run prints who changed what, the newest first.
func (a *Audit) Run(stdout io.Writer) error {
	query := url.Values{"limit": {fmt.Sprint(a.Limit)}, "before": {a.Before}}
	return a.show(stdout, client.Call{Path: "/v1/audit?" + query.Encode()}, "items", "+id when who what on before after why")
}

// nameTime bounds how long a shell waits for the names of rules.
const nameTime = time.Second

// RuleNames are the names of the rules in force, for a shell that completes a command line of these words. There are none
// if the installation does not answer.
func RuleNames(words []string) (names []string) {
	i := Installation{Context: flag(words, "--context"), Admin: flag(words, "--admin")}
	_ = i.follow(nameTime, func(ctx context.Context, c *client.Client) error {
		var rules v1.Rules
		if _, err := c.Do(ctx, client.Call{Path: rulesPath}, &rules); err != nil {
			return err
		}
		d, err := rulefile.Read("rules", []byte(rules.Document))
		if err != nil {
			return err
		}
		for i := range d.Set.Len() {
			names = append(names, rule.Written(d.Set.Rule(i).Name))
		}
		return nil
	})
	return names
}

// flag is the value of a flag among words, as --flag value or --flag=value.
func flag(words []string, name string) string {
	for i, word := range words {
		if value, found := strings.CutPrefix(word, name+"="); found {
			return value
		}
		if word == name && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}
