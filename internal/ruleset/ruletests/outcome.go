package ruletests

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/response"
)

// outcome is what became of a request.
type outcome struct {
	verdict string // allowed or denied
	failed  bool   // on_failure decided
	applied bool   // a rule; else what is below of it is zero
	quota   edge.Quota
	key     string // as it is counted
	headers map[string]string
	status  string
	shadow  []string // the rules that would refuse
}

// outcomeOf reads the outcome of a request that a worker has decided; whole: not only what is read of each.
func outcomeOf(by *edge.Worker, r *edge.Request, whole bool) outcome {
	o := outcome{verdict: allowed, failed: r.Degraded}
	if r.Outcome == edge.Deny {
		o.verdict = denied
	}
	if g := r.Governing(rule.AnyHeaders); g != nil {
		o.applied, o.quota = true, *g
		if whole {
			o.key = string(r.KeyOf(g))
		}
	}
	if whole {
		o.headers = map[string]string{}
		add := func(name, value string) { o.headers[name] = strings.Clone(value) }
		m := response.Maker{Headers: true, Worker: by}
		if f := response.Refuse(r, false); o.verdict == denied {
			o.status = strconv.Itoa(f.Status)
			m.Refused(r, &f, add)
		} else {
			m.Admitted(r, add)
		}
	}
	return o
}

// rule is the name of the rule.
func (o *outcome) rule() string {
	if o.applied {
		return o.quota.Rule.Name
	}
	return noRule
}

// is reports whether the verdict is the expected one.
func (o *outcome) is(e *expect) bool {
	return (e.outcome == "" || e.outcome == o.verdict) && (e.rule == "" || e.rule == o.rule() || e.rule == rule.Written(o.rule()))
}

// String is the outcome in words.
func (o *outcome) String() string {
	text := by(o.verdict, o.rule())
	for _, f := range []field{{name: "override"}, {name: "key"}, {name: "remaining"}} {
		if got := o.got(&f); got != "" && (f.name != "remaining" || o.verdict == allowed) {
			text += ", " + f.shown(got)
		}
	}
	if o.failed {
		text += ", failed"
	}
	return text
}

// by is a verdict in words; an empty rule is any.
func by(verdict, name string) string {
	switch name {
	case "":
		return verdict
	case noRule:
		return verdict + " by no rule"
	}
	return verdict + " by " + name
}

// elseMark is in a key before the value of an else.
var elseMark = regexp.MustCompile(`(^|\|)\\[0-9]:`)

// got is the value of a field; empty: it is absent.
func (o *outcome) got(f *field) string {
	switch f.name {
	case "status":
		return o.status
	case "retry_after":
		return o.headers["retry-after"]
	case "shadow":
		return shown(o.shadow)
	case "failed":
		return strconv.FormatBool(o.failed)
	}
	if name, ok := strings.CutPrefix(f.name, headerField); ok || !o.applied {
		return o.headers[name]
	}
	switch f.name {
	case "override":
		return o.quota.Override()
	case "remaining":
		return strconv.FormatInt(o.quota.Remaining, 10)
	}
	if r := o.quota.Rule; len(f.values) == len(r.Key) && (string(r.KeyOf(f.values)) == o.key || r.Hash && string(r.HashedKeyOf(f.values, &secret)) == o.key) {
		return f.want // such as an address in the network that is counted
	}
	return elseMark.ReplaceAllString(o.key, "$1")
}

// shown is a value of the field for people.
func (f *field) shown(value string) string {
	switch {
	case value == "" && f.name != "key":
		value = "null"
	case f.name == "retry_after":
		value += "s"
	}
	return f.name + " " + value
}
