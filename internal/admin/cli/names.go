package cli

import (
	"context"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

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
