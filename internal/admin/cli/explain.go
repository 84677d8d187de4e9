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

	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/explain"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Explain has the flags of the command that tells what becomes of a request.
type Explain struct {
	URL      string            `arg:"" optional:"" help:"URL of the request, such as https://example.com/v1/a?b=c, or its path."`
	Line     string            `placeholder:"LINE" help:"Line of Envoy's access log in JSON, in place of the URL; - reads it from standard input. The flags below state what it does not."`
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
	q, err := e.request()
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
	return e.print(stdout, &answer)
}

// request is that of the URL or of the line, with what flags state.
func (e *Explain) request() (_ *v1.Request, err error) {
	var l accesslog.Line
	text := []byte(cmp.Or(e.Line, "{}"))
	if e.Line == "-" {
		text, err = bufio.NewReader(io.LimitReader(os.Stdin, accesslog.MaxLine+2)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err = cmp.Or(err, l.Parse(text)); err != nil {
		return nil, fmt.Errorf("--line: %w", err)
	}
	r, own := &l.Request, map[string]bool{}
	for _, h := range e.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, fmt.Errorf("--header: %q must be NAME: VALUE", h)
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
	return q, nil
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
	all, err := q.Verdicts(doc.Set, nil, "", limit.Micros(time.Now().UnixMicro()))
	if err != nil {
		return err
	}
	for i := range all {
		one := v1.Explain(&all[i])
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

// print prints the answer for people.
func (e *Explain) print(stdout io.Writer, answer *v1.Explanation) error {
	type row struct {
		v1.Explained
		State string `json:"state"`
		Needs string `json:"needs"`
	}
	var rows []row
	applies, unknown, sheds := false, false, false
	for _, one := range answer.Rules {
		state := map[bool]string{true: "yes", false: "no"}[one.Applies]
		if one.Unknown {
			state, unknown = "unknown", true
		}
		if one.Class != "" {
			state, sheds = "yes, as "+one.Class, sheds || one.Mode != rule.Shadow.String()
		}
		applies = applies || one.Applies
		rows = append(rows, row{one, state, strings.Join(one.Needs, ", ")})
	}
	err := e.Print(stdout, nil, rows,
		"rule +mode state=applies failed=fails_at exempt_by override unlimited counted=key cost counters.remaining=remaining counters.limit|limit=limit +consistency needs problem")
	if err != nil {
		return err
	}
	text := "\nno rule rejects it, by what counters hold"
	switch {
	case answer.RejectedBy != "" && e.Rules != "":
		text = "\nrejected by " + answer.RejectedBy + ", whatever its counter holds"
	case answer.RejectedBy != "":
		text = "\nrejected by " + answer.RejectedBy + ", by what its counter holds"
	case !applies && !unknown:
		text = "\nno rule applies to it"
	case e.Rules != "":
		text = "\nno rule rejects it before its limit is used"
	}
	if sheds {
		text += "; a rule that sheds load rejects it if its PoP has too much to do"
	}
	if unknown {
		text += "; those that are unknown may reject it"
	}
	_, err = io.WriteString(stdout, Escaped(text+"\n", "\n"))
	return err
}
