package accesslog

import (
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Outcome is the response for rules that count by it. If the line does not say who made the response, it is the upstream's.
func (l *Line) Outcome() *settle.Response {
	details := l.Others["details"]
	status, _ := strconv.Atoi(l.Others["status"])
	return &settle.Response{
		Upstream: details == "" || details == "via_upstream", Status: status, GRPCStatus: settle.NoGRPCStatus, Cost: l.cost, Ends: true,
	}
}

// CostInput is the word of [Line.Known] for what a response states as the cost. No line has a body.
func CostInput(a *settle.Actual) string {
	if a.From == settle.FromMetadata {
		return request.MetadataInput(a.Name)
	}
	return "response " + a.From.String() + " " + a.Name
}

func (l *Line) cost(a *settle.Actual) (text string, known bool) {
	if a.From == settle.FromMetadata {
		return l.Request.Metadata[a.Name], true
	}
	return l.Others[CostInput(a)], true
}

// Recorded is the request and the response of a line, for people.
func (l *Line) Recorded() string {
	r, text := l.Others, "Recorded"
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
	add(", status ", r["status"], "")
	rule, denied := strings.CutPrefix(r["details"], "weir-denied:")
	if !denied {
		rule, denied = strings.CutPrefix(r["details"], "weir-shed:")
	}
	if name, override, _ := strings.Cut(rule, "/"); denied {
		add(", rejected by `", name, "`")
		add(" with the override `", override, "`")
		add(", class ", r["class"], "")
		add(", key ", r["key"], "")
		add(", ", r["remaining"], " left")
	}
	add(". Would have been rejected by `", strings.ReplaceAll(r["shadow"], ",", "`, `"), "`, in shadow mode or on trial")
	add(". Decided without the region or by an exempt rule: ", r["weir"], "")
	return text + "."
}
