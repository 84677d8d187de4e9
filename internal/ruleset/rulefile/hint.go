package rulefile

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/rule/strict"
	"go.yaml.in/yaml/v3"
)

// People write first what other rate limiters call things. The reader, which is part of the filter, says what is legal;
// for a rules file hints.yaml says what the author most likely means.

//go:embed hints.yaml
var hintsText []byte

// hints are those of hints.yaml, which is part of the program and has no mistake.
var hints = sync.OnceValue(func() (h struct {
	Fields, Parts map[string]string
	Values        map[string]map[string]string
}) {
	if err := yaml.Unmarshal(hintsText, &h); err != nil {
		panic("hints.yaml: " + err.Error())
	}
	return h
})

// advise adds to a mistake what its author most likely means. The text of a hint is code to write, or a sentence.
func advise(e *strict.Error, root *strict.Node) {
	field := e.Path[strings.LastIndexByte(e.Path, '.')+1:]
	if strings.HasPrefix(e.Reason, "unknown field") {
		hint := hints().Fields[field]
		if part := hints().Parts[field]; part != "" && strings.Contains(e.Path, ".key[") {
			hint = part
		} else if strings.Contains(e.Path, "overrides[") {
			hint = strings.Replace(hint, "match:", "when:", 1)
		}
		if hint != "" {
			e.Reason = "unknown field; " + hint
		}
		return
	}
	n := root.At(e.Path)
	if n == nil || strings.Contains(e.Reason, "did you mean") {
		return
	}
	name := number.ReplaceAllString(field, "[]")
	hint := hints().Values[name][strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(n.Text))]
	switch {
	case n.Kind == strict.List && name == "limit":
		hint = "limits"
	case n.Kind == strict.Object && name == "key":
		hint = "[{ header: x-user-id, else: client_ip }]"
	case n.Kind != strict.String && n.Kind != strict.Bool:
	case (name == "limit" || name == "limits[]") && strings.Contains(e.Reason, "is not a limit"):
		hint = likelyLimit(n.Text)
	case name == "match" || name == "when":
		hint = "{ path: " + n.Text + " }"
	case name == "key[]" && strings.Contains(n.Text, ":"):
		from, of, _ := strings.Cut(n.Text, ":")
		hint = "{ " + strings.TrimSpace(from) + ": " + strings.TrimSpace(of) + " }"
	case name == "key[]" && hint == "" && strings.HasPrefix(strings.ToLower(n.Text), "x-"):
		hint = "{ header: " + strings.ToLower(n.Text) + " }"
	}
	if hint != "" {
		e.Reason += " (did you mean " + hint + "?)"
	}
}

// number is the number of an item in a path.
var number = regexp.MustCompile(`\[\d+\]`)

// spokenLimit is a limit as people say it: 5/min, 5 per minute, 5rpm, 1k/s.
var spokenLimit = regexp.MustCompile(`^([0-9][0-9_,]*)(k?) *(?:r|req|requests)? *(?:/|per|p) *(?:1 *)?(ms|s|sec|second|m|min|minute|h|hr|hour|d|day|w|week|mo|month|y|year)s?$`)

// unitOf is the period of a unit, by its first letters.
var unitOf = map[string]string{"ms": "1ms", "s": "1s", "sec": "1s", "second": "1s", "m": "1m", "min": "1m", "minute": "1m", "h": "1h", "hr": "1h",
	"hour": "1h", "d": "1d", "day": "1d", "w": "week", "week": "week", "mo": "month", "month": "month", "y": "365d", "year": "365d"}

// likelyLimit returns the limit that a text most likely means, "" if it means none.
func likelyLimit(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	m := spokenLimit.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	count := strings.NewReplacer("_", "", ",", "").Replace(m[1])
	if m[2] == "k" {
		count += "000"
	}
	return count + "/" + unitOf[m[3]]
}
