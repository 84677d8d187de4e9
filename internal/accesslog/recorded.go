package accesslog

import (
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Response is what a line records about the response; a field that the line does not have is empty.
type Response struct {
	Status    string
	Details   string // weir-denied:RULE, weir-denied:RULE/OVERRIDE, weir-shed:RULE, or words of Envoy
	Class     string // of a request that was shed
	Key       string // that was over its limit
	Remaining string // units
	Shadow    string // shadow rules and candidates that would have rejected the request, with a comma between them
	Weir      string // a decision without the region, such as login allowed on_failure, or internal exempt
}

// field takes a field, if it is about the response.
func (r *Response) field(name string, v gjson.Result) {
	var to *string
	switch name {
	case "status":
		to = &r.Status
	case "details":
		to = &r.Details
	case "class":
		to = &r.Class
	case "key":
		to = &r.Key
	case "remaining":
		to = &r.Remaining
	case "shadow":
		to = &r.Shadow
	case "weir":
		to = &r.Weir
	default:
		return
	}
	*to, _ = text(v) // what is not a text says nothing
}

// Recorded is the request and the response of a line, for people.
func (l *Line) Recorded() string {
	r, text := &l.Response, "Recorded"
	add := func(before, value, after string) {
		if value != "" {
			text += before + value + after
		}
	}
	if !l.Time.IsZero() {
		add(" at ", l.Time.UTC().Format(time.RFC3339Nano), "")
	}
	add(": ", strings.TrimSpace(l.Request.Method+" "+l.Request.Path), "")
	add(" from ", l.Request.Client, "")
	add(", status ", r.Status, "")
	rule, denied := strings.CutPrefix(r.Details, "weir-denied:")
	if !denied {
		rule, denied = strings.CutPrefix(r.Details, "weir-shed:")
	}
	if name, override, _ := strings.Cut(rule, "/"); denied {
		add(", rejected by `", name, "`")
		add(" with the override `", override, "`")
		add(", class ", r.Class, "")
		add(", key ", r.Key, "")
		add(", ", r.Remaining, " left")
	}
	add(". Would have been rejected by `", strings.ReplaceAll(r.Shadow, ",", "`, `"), "`, in shadow mode or on trial")
	add(". Decided without the region or by an exempt rule: ", r.Weir, "")
	return text + "."
}
