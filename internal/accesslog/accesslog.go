// Package accesslog reads lines of access logs: Envoy's in JSON or in its default text format, and the combined format of
// Apache and nginx. docs/access-log.md lists the fields.
//
//	accesslog.go  a line, and its fields in JSON
//	text.go       the text formats
//	recorded.go   the response that a line records, for people
package accesslog

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// MaxLine bounds a line, in bytes: Envoy takes 60 KiB of headers, and JSON escapes some.
const MaxLine = 256 << 10

// page has the fields and what they mean.
const page = "docs/access-log.md"

// Line is what rules can see of a line of the log, and when. The zero value is ready to use, and can be used again for another
// line. A text that the line does not have, or that is null or "-", is empty.
type Line struct {
	Request request.Request
	// Known are the inputs that the line states, and "duration": one whose field is missing is unknown, one whose field is
	// null or "-" is known to be absent. It is never nil.
	Known    request.Known
	Time     time.Time     // when the request began; zero: the line does not say
	Duration time.Duration // until its end, whole milliseconds
	Format   Format
	Others   map[string]string // fields that rules cannot see and that have a text, such as status; never nil
}

// Parse reads a line, of which it keeps a copy. After an error l has part of it.
func (l *Line) Parse(line []byte) (err error) {
	l.reset()
	text := strings.TrimSpace(string(line))
	switch {
	case len(text) > MaxLine:
		return fmt.Errorf("has %d bytes; a line has at most %d", len(text), MaxLine)
	case !strings.HasPrefix(text, "{"):
		return l.text(text)
	case !gjson.Valid(text):
		return errors.New("is not JSON: it ends too early, or is several lines")
	}
	l.Format = formatJSON
	gjson.Parse(text).ForEach(func(name, value gjson.Result) bool {
		if err = l.field(name.Str, value); err != nil {
			err = fmt.Errorf("%s: %w, see %s", name.Str, err, page)
		}
		return err == nil
	})
	return err
}

// reset empties l, and keeps its maps.
func (l *Line) reset() {
	if l.Known == nil {
		l.Request.Headers, l.Request.Claims, l.Request.Metadata, l.Known = map[string]string{}, map[string]string{}, map[string]string{}, request.Known{}
		l.Others = map[string]string{}
	}
	clear(l.Request.Headers)
	clear(l.Request.Claims)
	clear(l.Request.Metadata)
	clear(l.Known)
	clear(l.Others)
	*l = Line{Request: request.Request{Headers: l.Request.Headers, Claims: l.Request.Claims, Metadata: l.Request.Metadata}, Known: l.Known, Others: l.Others}
}

// names are the fields of the JSON formats of Istio and Envoy Gateway, and what they are called in docs/access-log.md.
var names = map[string]string{
	"start_time": "time", "duration": "ms", "authority": "host", ":authority": "host", "x-envoy-origin-path": "path",
	"x_forwarded_for": "xff", "x-forwarded-for": "xff", "downstream_remote_address": "client", "route_name": "route",
	"response_code": "status", "response_code_details": "details",
}

// field takes a field; those that rules cannot see it leaves out.
func (l *Line) field(name string, v gjson.Result) (err error) {
	r := &l.Request
	if ours := names[name]; ours != "" {
		name = ours
	}
	switch name {
	case "method":
		return l.input(&r.Method, name, v)
	case "path":
		return l.input(&r.Path, name, v)
	case "host":
		return l.input(&r.Host, name, v)
	case "client":
		return l.client(v)
	case "san": // all URIs, then all DNS names; "-" for none of a kind
		err = l.input(&r.SAN, name, v)
		r.SAN, _, _ = strings.Cut(strings.TrimLeft(r.SAN, "-,"), ",")
		return err
	case "route":
		return l.input(&r.Route, name, v)
	case "region":
		return l.input(&r.Region, name, v)
	case "xff":
		return l.header("x-forwarded-for", v)
	case "user_agent", "user-agent":
		return l.header("user-agent", v)
	case "referer":
		return l.header(name, v)
	case "request_id", "x-request-id":
		return l.header("x-request-id", v)
	case "headers":
		return each(v, l.header)
	case "claims":
		return each(v, func(name string, v gjson.Result) error {
			l.Known[request.ClaimInput(name)] = true
			return metadata(r.Claims, name, v)
		})
	case "metadata":
		return each(v, func(name string, v gjson.Result) error {
			l.Known[request.MetadataInput(name)] = true
			return metadata(r.Metadata, name, v)
		})
	case "response_headers", "response_trailers": // of the response, see CostInput
		kind := strings.TrimSuffix(strings.TrimPrefix(name, "response_"), "s")
		return each(v, func(name string, v gjson.Result) (err error) {
			word := "response " + kind + " " + strings.ToLower(name)
			l.Known[word] = true
			l.Others[word], err = text(v)
			return err
		})
	case "time":
		l.Time, err = clock(v)
	case "ms":
		if l.Duration, err = milliseconds(v); v.Type != gjson.Null && v.Str != "-" {
			l.Known[Duration] = true
		}
	default:
		if value, err := text(v); err == nil && value != "" {
			l.Others[name] = value
		}
	}
	return err
}

// input takes an input of the request. Without a method, a path or a host no filter saw the request: they are unknown.
func (l *Line) input(to *string, word string, v gjson.Result) (err error) {
	if *to, err = text(v); *to != "" || to != &l.Request.Method && to != &l.Request.Path && to != &l.Request.Host {
		l.Known[word] = true
	}
	return err
}

func (l *Line) client(v gjson.Result) error {
	err := l.input(&l.Request.Client, "client_ip", v)
	if err == nil && l.Request.Client != "" && !ip.Parse(l.Request.Client).Valid() {
		l.Request.Client = ""           // a path of a Unix socket: the filter finds no address there either
		if l.Format == formatCombined { // or the name of a host, whose address is not known
			delete(l.Known, "client_ip")
		}
	}
	return err
}

func (l *Line) header(name string, v gjson.Result) error {
	value, err := text(v)
	if err != nil {
		return err
	}
	name = strings.ToLower(name)
	word := request.HeaderInput(name)
	if word == "host" {
		return l.input(&l.Request.Host, word, v)
	}
	l.Known[word] = true
	set(l.Request.Headers, name, value, v)
	return nil
}

// set sets a header, a claim or metadata. One that is empty is there: Envoy writes null for one that is not.
func set(to map[string]string, name, value string, v gjson.Result) {
	if value != "" || v.Type == gjson.String && v.Str == "" {
		to[name] = value
	} else {
		delete(to, name)
	}
}

// maxWhole bounds the whole numbers that the filter can read of metadata.
const maxWhole = 1 << 51

// metadata takes a claim or metadata: a text without control characters, a whole number or a boolean. To the filter others
// are absent.
func metadata(to map[string]string, name string, v gjson.Result) error {
	value := ""
	switch v.Type {
	case gjson.Number:
		if v.Num == math.Trunc(v.Num) && math.Abs(v.Num) < maxWhole {
			value = strconv.FormatInt(int64(v.Num), 10)
		}
	case gjson.JSON:
	default:
		if value, _ = text(v); strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
			value = ""
		}
	}
	set(to, name, value, v)
	return nil
}

// each takes the fields of a field.
func each(v gjson.Result, take func(name string, v gjson.Result) error) (err error) {
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		return errors.New("must be an object of names and values")
	}
	v.ForEach(func(name, value gjson.Result) bool {
		if err = take(name.Str, value); err != nil {
			err = fmt.Errorf("%s: %w", name.Str, err)
		}
		return err == nil
	})
	return err
}

// text is a field that is a text; empty: Envoy does not have it.
func text(v gjson.Result) (string, error) {
	switch v.Type {
	case gjson.Null:
		return "", nil
	case gjson.JSON:
		return "", errors.New("must be a text")
	case gjson.String:
		if v.Str == "-" {
			return "", nil
		}
		return v.Str, nil
	}
	return v.Raw, nil
}

// milliseconds is a field that is a whole number of them, or a text of one; at most some 35 years.
func milliseconds(v gjson.Result) (time.Duration, error) {
	s, err := text(v)
	if err != nil || s == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, fmt.Errorf("%.99q must be a whole number of milliseconds", s)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// clock is a time as %START_TIME% has it, or as Apache and nginx write it.
func clock(v gjson.Result) (at time.Time, err error) {
	s, err := text(v)
	if err != nil || s == "" {
		return at, err
	}
	if at, err = time.Parse("02/Jan/2006:15:04:05 -0700", s); err != nil {
		at, err = time.Parse(time.RFC3339, s)
	}
	if err != nil || at.UTC().Year() > 9999 {
		err = fmt.Errorf("%.99q must be a time as %%START_TIME%% has it, such as 2026-11-26T14:37:20.227Z", s)
	}
	return at, err
}
