// Package lint finds rules that are legal and likely not meant: a client can avoid a limit, a limit admits more or less than it
// states, a rule has no effect.
//
// Each warning has a code, and docs/warnings.md has a section for each code.
package lint

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule"
)

// Warning is one finding.
type Warning struct {
	Code   string // a heading of docs/warnings.md
	Rule   string // name of the rule, or NAME@candidate
	Field  string // below the rule, such as key[0]; empty: all of it
	Reason string // what happens, and what to write instead
}

// Codes are all codes, in the order of docs/warnings.md.
var Codes = []string{
	"key-without-else", "client-header", "login-fails-open", "overdraft-above-limit", "exact-at-high-rate", "small-leased-limit", "native-module-only",
	"critical-by-client", "never-matches", "always-exempt", "override-unreachable", "same-match-and-key", "over",
}

// Check returns the warnings about a set, in the order of its rules. now is the time by which an override is over.
func Check(set *rule.Set, now time.Time) []Warning {
	l := linter{now: now, seen: map[Warning]bool{}}
	var exempt, before []*rule.Rule // exempt rules are the first of a set
	for i := range set.Len() {
		r := set.Rule(i)
		if r.Mode == rule.Off {
			continue
		}
		l.rule = r
		l.match(set.Regions())
		if r.Mode == rule.Exempt {
			l.chosen("match", &r.Match)
			exempt = append(exempt, r)
			continue
		}
		l.lifted(exempt)
		if r.Shed != nil {
			l.classes()
			continue
		}
		l.key()
		l.limit()
		l.overrides()
		l.keys()
		l.same(before)
		before = append(before, r)
	}
	return l.found
}

// linter collects warnings about the rule that it is at.
type linter struct {
	rule  *rule.Rule
	now   time.Time
	found []Warning
	seen  map[Warning]bool // what was found: a file may have 100,000 overrides
}

// warn notes a warning once: a rule with several windows or variants is several rules of one name.
func (l *linter) warn(code, field, format string, args ...any) {
	w := Warning{Code: code, Rule: rule.Written(l.rule.Name), Field: field, Reason: fmt.Sprintf(format, args...)}
	if code == "over" && field == "match" && !l.seen[w] && strings.HasSuffix(l.rule.Name, "@candidate") {
		w.Rule, w.Field = l.rule.Name, "" // its own end, and not that of its rule
	}
	if !l.seen[w] {
		l.seen[w] = true
		l.found = append(l.found, w)
	}
}
