package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/explain"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Explain has the flags of the command that tells what becomes of a request.
type Explain struct {
	URL      string            `arg:"" optional:"" help:"URL of the request, such as https://example.com/v1/a?b=c, or its path."`
	Line     string            `placeholder:"LINE" help:"Line of an access log, in place of the URL; - reads it from standard input. The flags below state what it does not."`
	Rules    string            `placeholder:"FILE" predictor:"file" help:"Rules file, or a directory of them, in place of the rules in force; nothing is called then."`
	Method   string            `short:"X" placeholder:"NAME" help:"Its method; default: GET."`
	Header   []string          `short:"H" sep:"none" placeholder:"NAME: VALUE" help:"A header of it; once for each."`
	Client   string            `placeholder:"ADDRESS" help:"Address of the peer, as Envoy sees it."`
	Claim    map[string]string `help:"A claim of its token; once for each."`
	Metadata map[string]string `placeholder:"NAMESPACE:KEY=VALUE" help:"A value of dynamic metadata that a filter before Weir has set; once for each."`
	SAN      string            `name:"san" help:"Name in the client's certificate."`
	Route    string            `help:"Name of Envoy's route."`
	Region   string            `help:"Region of the PoP; default: that of the program that answers."`
	Label    map[string]string `help:"A label of the PoP; once for each."`
	listing
}

// Validate returns a mistake in the command line.
func (e *Explain) Validate() error {
	if (e.URL == "") == (e.Line == "") {
		return errors.New("expected a URL, or --line and no URL")
	}
	return nil
}

// Run prints what each rule does with the request. Nothing is counted.
func (e *Explain) Run(stdout io.Writer) error {
	q, recorded, err := e.request()
	if err != nil {
		return err
	}
	var answer v1.Explanation
	if err = e.ask(q, &answer); err != nil {
		return err
	}
	if e.Output.Output == "json" {
		return e.Print(stdout, answer, nil, "")
	}
	if recorded != "" {
		recorded += "\n"
	}
	if _, err = io.WriteString(stdout, Escaped(recorded+e.summary(&answer)+"\n\n", "\n")); err != nil {
		return err
	}
	return e.table(stdout, &answer)
}

// request is that of the URL or of the line, with what flags state. recorded is what became of that of the line.
func (e *Explain) request() (_ *v1.Request, recorded string, err error) {
	var l accesslog.Line
	text := []byte(cmp.Or(e.Line, "{}"))
	if e.Line == "-" {
		text, err = bufio.NewReader(io.LimitReader(os.Stdin, accesslog.MaxLine+2)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err = cmp.Or(err, l.Parse(text)); err != nil {
		return nil, "", fmt.Errorf("--line: %w", err)
	}
	if e.Line != "" {
		recorded = l.Recorded()
	}
	r, own := &l.Request, map[string]bool{}
	for _, h := range e.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, "", fmt.Errorf("--header: %q must be NAME: VALUE", h)
		}
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		if own[name] {
			value = r.Headers[name] + "," + value
		}
		r.Headers[name], own[name], l.Known[request.HeaderInput(name)] = value, true, true
	}
	for name, value := range e.Claim {
		r.Claims[name], l.Known[request.ClaimInput(name)] = value, true
	}
	for name, value := range e.Metadata {
		r.Metadata[name], l.Known[request.MetadataInput(name)] = value, true
	}
	for name := range e.Label {
		l.Known[request.Input(rule.Source{From: rule.FromLabel, Name: name})] = true
	}
	for word, to := range map[string]struct{ field, flag *string }{
		"method": {&r.Method, &e.Method}, "client_ip": {&r.Client, &e.Client}, "san": {&r.SAN, &e.SAN}, "route": {&r.Route, &e.Route}, "region": {&r.Region, &e.Region},
	} {
		if *to.flag != "" {
			*to.field, l.Known[word] = *to.flag, true
		}
	}
	q := &v1.Request{
		Method: r.Method, URL: e.URL, Headers: r.Headers, Client: r.Client, Claims: r.Claims, Metadata: r.Metadata, SAN: r.SAN, Route: r.Route, Region: r.Region, Labels: e.Label,
	}
	if e.Line != "" {
		q.URL, q.Known = cmp.Or(r.Path, "/"), slices.AppendSeq([]string{}, maps.Keys(l.Known)) // never nil
		slices.Sort(q.Known)
		if r.Host != "" {
			r.Headers["host"] = r.Host
		}
	}
	return q, recorded, nil
}

// ask has the rules of a file explain the request, or the rules in force.
func (e *Explain) ask(q *v1.Request, to *v1.Explanation) error {
	if e.Rules == "" {
		return e.Use(func(ctx context.Context, c *client.Client) error {
			_, err := c.Do(ctx, client.Call{Method: http.MethodPost, Path: "/v1/explain", Body: q}, to)
			return err
		})
	}
	doc, err := rulefile.Load(e.Rules)
	if err != nil {
		return err
	}
	to.InForce.Version = doc.Set.Version
	all, err := explain.Request(q, doc.Set, nil, "", limit.Micros(time.Now().UnixMicro()))
	if err != nil {
		return err
	}
	for i := range all {
		one := all[i].Answer()
		if hit := all[i].Hit; hit != nil && hit.NoSecret {
			one.Counted, one.Problem = "", "the key is hashed under a secret, which is not here"
		}
		to.Rules = append(to.Rules, one)
	}
	if i := explain.Rejecter(all, func(int) int64 { return -1 }); i >= 0 {
		to.RejectedBy = all[i].Rule.Name
	}
	return nil
}

// summary is the decision on the request in sentences: which rule rejects it, and which rules could not be checked.
func (e *Explain) summary(answer *v1.Explanation) string {
	var counting, unchecked, sheds []string
	exempt, nearest, left := "", "", 1.0 // the rule of whose limit the smallest part is left
	for i := range answer.Rules {
		r := &answer.Rules[i]
		switch {
		case r.Unknown:
			unchecked = append(unchecked, fmt.Sprintf("`%s` (the log has no %s)", r.Rule, strings.Join(r.Needs, ", ")))
		case r.ExemptBy != "":
			exempt = fmt.Sprintf(": `%s` exempts it", r.ExemptBy)
		case r.Class != "" && r.Mode != rule.Shadow.String():
			sheds = append(sheds, fmt.Sprintf("`%s` rejects it, as %s, only if its PoP has too much to do.", r.Rule, r.Class))
		case r.Cost > 0 && r.Mode != rule.Shadow.String():
			counting = append(counting, "`"+r.Rule+"`")
			if c := r.Counters; len(c) > 0 && c[0].Limit > 0 && float64(c[0].Remaining)/float64(c[0].Limit) <= left {
				left = float64(c[0].Remaining) / float64(c[0].Limit)
				nearest = fmt.Sprintf(" Nearest to its limit: `%s`, %d of %d left.", r.Rule, c[0].Remaining, c[0].Limit)
			}
		}
	}
	text := "Would be admitted now." + nearest
	switch {
	case answer.RejectedBy != "":
		text = fmt.Sprintf("Would be rejected now by `%s`%s.", answer.RejectedBy, why(answer))
	case len(counting) == 0 && len(unchecked) == 0 && len(sheds) == 0:
		text = "No enforced rule applies to it" + exempt + "."
	case len(counting) == 0:
		text = "No rule that was checked rejects it."
	case e.Rules != "":
		text = "Rejected only when a limit is used up. Counted by " + strings.Join(counting, ", ") + "."
	}
	all := append([]string{text}, sheds...)
	if len(unchecked) > 0 {
		all = append(all, "Not checked: "+strings.Join(unchecked, ", ")+".")
	}
	return strings.Join(all, " ")
}

// why is the reason of the rule that rejects the request, behind a colon.
func why(answer *v1.Explanation) string {
	i := slices.IndexFunc(answer.Rules, func(r v1.Explained) bool { return r.Rule == answer.RejectedBy })
	if i < 0 {
		return ""
	}
	r := &answer.Rules[i]
	cost := ""
	if r.Cost > 1 {
		cost = fmt.Sprintf("it costs %d, ", r.Cost)
	}
	switch {
	case len(r.Counters) > 0 && r.Counters[0].Slots:
		c := &r.Counters[0]
		return fmt.Sprintf(": %s%d of %d in use", cost, c.Limit-c.Remaining, c.Limit)
	case len(r.Counters) > 0 && r.Counters[0].Blocked:
		return ": blocked for " + ago(uint64(r.Counters[0].RetryAfterMS))
	case len(r.Counters) > 0:
		c := &r.Counters[0]
		free, ms := "free", c.RetryAfterMS
		if ms == 0 || r.Cost > 1 { // it needs more than the next unit
			free, ms = "all free", c.ResetMS
		}
		return fmt.Sprintf(": %s%d of %d used, %s in %s", cost, c.Limit-c.Remaining, c.Limit, free, ago(uint64(max(ms, 0))))
	case r.Limit != nil:
		return fmt.Sprintf(": %sthe limit is %d", cost, *r.Limit)
	}
	return ""
}

// table prints what each rule does.
func (e *Explain) table(stdout io.Writer, answer *v1.Explanation) error {
	type row struct {
		v1.Explained
		State string `json:"state"`
		Needs string `json:"needs"`
	}
	var rows []row
	for _, one := range answer.Rules {
		state := map[bool]string{true: "yes", false: "no"}[one.Applies]
		if one.Unknown {
			state = "unknown"
		}
		if one.Class != "" {
			state = "yes, as " + one.Class
		}
		rows = append(rows, row{one, state, strings.Join(one.Needs, ", ")})
	}
	return e.Print(stdout, nil, rows,
		"rule +mode state=applies failed=fails_at exempt_by override unlimited counted=key cost counters.remaining=remaining counters.limit|limit=limit +consistency needs problem")
}
