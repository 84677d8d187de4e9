// Package accesslog reads Envoy's access log in JSON, with the fields that docs/install.md has.
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
const page = "docs/install.md#the-access-log"

// Line is a line of the log. The zero value is ready to use, and can be used again for another line. A text that the
// line does not have, or that is null or "-", is empty.
type Line struct {
	Request request.Request
	// Known are the inputs that the line states: one whose field is missing is unknown, one whose field is null or "-" is
	// known to be absent. It is never nil.
	Known  request.Known
	Region string // of the PoP
	PoP    string

	Time     time.Time     // when the request began; zero: the line does not say
	Duration time.Duration // until its end, whole milliseconds
	Status   int           // of its response; 0: the line does not say, or there was none
	Details  string        // why it is so
	ID       string        // of the request

	// Rule and Override refused the request or, with span_tags in the filter's configuration, decided on it.
	Rule, Override string
	Key            string // for whom it was refused, as it is counted
	Remaining      int64  // units that were left; -1: the line does not say
	Shadow         string // shadow rules and candidates that would refuse it
	Degraded       string // field weir: what was decided without the region, or the exempt rule

	headers, claims words
}

// words has the inputs of headers or claims by the names that fields have, of which there are few.
type words map[string]string

// Denied reports whether Weir refused the request.
func (l *Line) Denied() bool {
	return strings.HasPrefix(l.Details, "weir-denied:") || l.Details == "" && l.Rule != "" && l.Status >= 400
}

// Parse reads a line, of which it keeps a copy. After an error l has part of it.
func (l *Line) Parse(line []byte) (err error) {
	l.reset()
	text := strings.TrimSpace(string(line))
	switch {
	case len(text) > MaxLine:
		return fmt.Errorf("has %d bytes; a line has at most %d", len(text), MaxLine)
	case !strings.HasPrefix(text, "{"):
		return errors.New("is not JSON; have Envoy write the log with the json_format of " + page)
	case !gjson.Valid(text):
		return errors.New("is not JSON: it ends too early, or is several lines")
	}
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
		l.Request.Headers, l.Request.Claims, l.Known = map[string]string{}, map[string]string{}, request.Known{}
		l.headers, l.claims = words{}, words{}
	}
	clear(l.Request.Headers)
	clear(l.Request.Claims)
	clear(l.Known)
	*l = Line{
		Request: request.Request{Headers: l.Request.Headers, Claims: l.Request.Claims}, Known: l.Known,
		Remaining: -1, headers: l.headers, claims: l.claims,
	}
}

// field takes a field; those that it does not know it leaves out. The second names are those of other formats.
func (l *Line) field(name string, v gjson.Result) (err error) {
	r := &l.Request
	switch name {
	case "method":
		return l.input(&r.Method, "method", v)
	case "path":
		return l.input(&r.Path, "path", v)
	case "host", "authority":
		return l.input(&r.Host, "host", v)
	case "client":
		return l.client(v)
	case "san":
		return l.input(&r.SAN, "san", v)
	case "route", "route_name":
		return l.input(&r.Route, "route", v)
	case "region":
		return l.input(&l.Region, "region", v)
	case "xff", "x_forwarded_for", "x-forwarded-for":
		return l.header("x-forwarded-for", v)
	case "headers":
		return each(v, l.header)
	case "claims":
		return each(v, l.claim)
	case "time", "start_time":
		l.Time, err = clock(v)
	case "ms", "duration":
		var n int64
		n, err = number(v, 0)
		l.Duration = time.Duration(n) * time.Millisecond
	case "status", "response_code":
		var n int64
		n, err = number(v, 0)
		l.Status = int(n)
	case "remaining":
		l.Remaining, err = number(v, -1)
	case "details", "response_code_details":
		l.Details, err = text(v)
	case "request", "request_id":
		l.ID, err = text(v)
	case "rule":
		l.Rule, err = text(v)
	case "override":
		l.Override, err = text(v)
	case "key":
		l.Key, err = text(v)
	case "shadow":
		l.Shadow, err = text(v)
	case "weir":
		l.Degraded, err = text(v)
	case "pop":
		l.PoP, err = text(v)
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
		l.Request.Client = "" // a path of a Unix socket: the filter finds no address there either
	}
	return err
}

func (l *Line) header(name string, v gjson.Result) error {
	value, err := text(v)
	if err != nil {
		return err
	}
	name = strings.ToLower(name)
	word := l.headers.of(name, request.HeaderInput)
	if word == "host" {
		return l.input(&l.Request.Host, word, v)
	}
	if l.Known[word] = true; value != "" || sent(v) {
		l.Request.Headers[name] = value
	}
	return nil
}

// maxWhole bounds the whole numbers that the filter can read of a claim.
const maxWhole = 1 << 51

// claim takes a claim: a text without control characters, a whole number or a boolean. To the filter others are absent.
func (l *Line) claim(name string, v gjson.Result) error {
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
	l.Known[l.claims.of(name, request.ClaimInput)] = true
	if value != "" || sent(v) {
		l.Request.Claims[name] = value
	}
	return nil
}

// sent reports that a header or a claim is there, and empty. Envoy writes null for one that is not.
func sent(v gjson.Result) bool { return v.Type == gjson.String && v.Str == "" }

// maxWords bounds the names that are kept.
const maxWords = 1000

// of is input(name), which is made once.
func (w words) of(name string, input func(name string) string) string {
	word, found := w[name]
	if !found {
		if len(w) >= maxWords {
			clear(w)
		}
		name = strings.Clone(name) // not with its line
		word = input(name)
		w[name] = word
	}
	return word
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

// number is a field that is a whole number, or a text of one; without one it is none.
func number(v gjson.Result, none int64) (int64, error) {
	s, err := text(v)
	if err != nil || s == "" {
		return none, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return none, fmt.Errorf("%q must be a whole number", s)
	}
	return n, nil
}

// clock is a time as %START_TIME% has it by itself, or in seconds since 1970, as %START_TIME(%s.%3f)% has it.
func clock(v gjson.Result) (time.Time, error) {
	s, err := text(v)
	if err != nil || s == "" {
		return time.Time{}, err
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && 0 <= seconds && seconds < 1<<33 {
		return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%q must be a time as %%START_TIME%% has it, such as 2026-11-26T14:37:20.227Z", s)
}
