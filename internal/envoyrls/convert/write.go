package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

const rulesHead = `# Rules for weir-regional --rules, converted from a configuration of envoyproxy/ratelimit.
# The file of --ratelimit-bindings binds descriptors to these rules and ignores key and match.
# Before PoPs use the rules, replace each header x-descriptor-* by the header that Envoy sends
# under that key.
`

const bindingsHead = `# Bindings for weir-regional --ratelimit-bindings, to the rules that were converted with them.
# With unbound: true, a value is excluded from the binding for any value beside it.
`

// writeList writes the head of a file and its only field, a list.
func writeList[T any](head string, items []T, write func(*strings.Builder, *T)) []byte {
	var b strings.Builder
	b.WriteString(head)
	if len(items) == 0 {
		b.WriteString(" []")
	}
	b.WriteByte('\n')
	for i := range items {
		write(&b, &items[i])
	}
	return []byte(b.String())
}

func writeRule(b *strings.Builder, m *made) {
	r := &m.rule
	fmt.Fprintf(b, "  # %s\n  - name: %s\n", comment(located(m.from.File, m.from.Line, m.from.Path)), quote(r.Name))
	if r.Mode == rule.Shadow {
		b.WriteString("    mode: shadow\n")
	}
	if len(r.Match.Headers) > 0 {
		fmt.Fprintf(b, "    match: { header: { %s } }\n", headersText(r.Match.Headers))
	}
	parts := make([]string, len(r.Key))
	for i, p := range r.Key {
		parts[i] = "{ header: " + quote(p[0].Name) + " }"
	}
	spec := r.Limits[0].Limit
	fmt.Fprintf(b, "    key: [%s]\n    limit: %d/%s\n    algorithm: fixed_window\n",
		strings.Join(parts, ", "), spec.Count, periodText(spec.Period))
	if spec.ChargeRejected {
		b.WriteString("    charge_rejected: true\n")
	}
	if r.Consistency != lease.Leased {
		fmt.Fprintf(b, "    consistency: %s\n", r.Consistency)
	}
	if r.OnFailure != lease.FailureAllow {
		fmt.Fprintf(b, "    on_failure: %s\n", r.OnFailure)
	}
}

func headersText(headers []rule.Named) string {
	texts := make([]string, len(headers))
	for i, h := range headers {
		text := quote(h.Text.Arg)
		if h.Text.Op == rule.OpPresent {
			text = "{ present: true }"
		}
		texts[i] = quote(h.Name) + ": " + text
	}
	return strings.Join(texts, ", ")
}

// periodText writes a unit of envoyproxy/ratelimit.
func periodText(p limit.Micros) string {
	switch {
	case p%limit.Day == 0:
		return strconv.FormatInt(int64(p/limit.Day), 10) + "d"
	case p == limit.Hour:
		return "1h"
	case p == limit.Minute:
		return "1m"
	}
	return strconv.FormatInt(int64(p/limit.Second), 10) + "s"
}

func writeBinding(b *strings.Builder, m *bound) {
	entries := make([]string, len(m.entries))
	for i, e := range m.entries {
		entries[i] = "{ key: " + quote(e.Key)
		if e.Value != "" {
			entries[i] += ", value: " + quote(e.Value)
		}
		entries[i] += " }"
	}
	fmt.Fprintf(b, "  # %s\n  - domain: %s\n    descriptor: [%s]\n", comment(m.at), quote(m.domain), strings.Join(entries, ", "))
	if m.rule == "" {
		b.WriteString("    unbound: true\n")
	} else {
		fmt.Fprintf(b, "    rule: %s\n", quote(m.rule))
	}
}

// notPlain are words that YAML does not read as text unless they are in quotes.
var notPlain = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}

// quote writes a text of YAML, without quotes where everybody reads it as a text.
func quote(s string) string {
	plain := s != "" && !slices.Contains(notPlain, strings.ToLower(s))
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '/'
		plain = plain && (letter || i > 0 && (rule.IsNameRune(r) || r == '.'))
	}
	if plain {
		return s
	}
	return strconv.Quote(s) // its escapes are those of YAML, too
}

// comment is a text without what a comment cannot have.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
