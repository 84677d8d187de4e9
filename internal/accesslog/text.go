package accesslog

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Format is how a line is written; empty: that is not known.
type Format string

// The formats, as people know them.
const (
	formatJSON     Format = "JSON"
	formatText     Format = "Envoy's default format"
	formatCombined Format = "the combined format"
)

// Duration is the word for the duration of a request among the inputs.
const Duration = "duration"

// patterns are those of the text formats; a group is called as the field of the format in JSON, or as one of names. The first one
// that fits counts: a client can send headers with which a line of Envoy looks like a combined one, too.
var patterns = []struct {
	format Format
	line   *regexp.Regexp
}{
	// Envoy does not escape quotation marks. A line with more of them is not read: its fields cannot be told apart.
	{formatText, regexp.MustCompile(`^\[(?P<time>[^\]]*)\] "(?P<method>\S+) (?P<path>\S+) \S+" (?P<status>\d+) \S+ \d+ \d+ (?P<ms>\d+|-) \S+ ` +
		`"(?P<xff>[^"]*)" "(?P<user_agent>[^"]*)" "(?P<request_id>[^"]*)" "(?P<host>[^"]*)" "[^"]*"$`)},
	// Also the common format, which ends before the two headers, and formats with further fields behind them.
	{formatCombined, regexp.MustCompile(`^(?P<client>\S+) \S+ .*?\[(?P<time>[^\]]*)\] "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d+) (?:\d+|-)` +
		`(?: "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<user_agent>(?:[^"\\]|\\.)*)")?(?: .*)?$`)},
}

// Has lists the inputs that lines of a text format have; empty: the configuration of the log decides that.
func (f Format) Has() string {
	return map[Format]string{
		formatText:     "method, path, host, duration, and the headers x-forwarded-for, user-agent and x-request-id",
		formatCombined: "method, path, client_ip, and the headers referer and user-agent",
	}[f]
}

// text reads a line in a text format.
func (l *Line) text(line string) (err error) {
	for _, p := range patterns {
		at := p.line.FindStringSubmatchIndex(line)
		if at == nil {
			continue
		}
		l.Format = p.format
		for i, name := range p.line.SubexpNames() {
			if name == "" || at[2*i] < 0 || err != nil {
				continue
			}
			err = l.written(name, line[at[2*i]:at[2*i+1]])
		}
		return err
	}
	return errors.New("is in no format that Weir reads: JSON as in " + page + ", Envoy's default format, or the combined format of Apache and nginx")
}

// written takes a field of a text format.
func (l *Line) written(name, value string) error {
	if l.Format == formatCombined {
		if plain, err := strconv.Unquote(`"` + value + `"`); err == nil { // \xNN and \", as Apache and nginx escape
			value = plain
		}
	}
	if name != "request" {
		return l.field(name, gjson.Result{Type: gjson.String, Str: value})
	}
	method, path, _ := strings.Cut(value, " ")
	if end := strings.LastIndex(path, " "); end >= 0 { // before the protocol
		path = path[:end]
	}
	_ = l.field("method", gjson.Result{Type: gjson.String, Str: method}) // a text has no error
	return l.field("path", gjson.Result{Type: gjson.String, Str: path})
}
