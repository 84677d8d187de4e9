package accesslog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// file has lines, and what is read of each.
const file = "testdata/lines.golden"

// parse reads a line with l, then again from a fresh one, and compares.
func parse(t *testing.T, l *Line, line string) error {
	t.Helper()
	fresh, data := new(Line), []byte(line)
	err := l.Parse(data)
	for i := range data {
		data[i] = 'x' // the caller may use it again
	}
	if other := fresh.Parse([]byte(line)); (other == nil) != (err == nil) || !reflect.DeepEqual(l, fresh) {
		t.Errorf("%s\nis %+v, %v\nand %+v, %v after another line", line, fresh, other, l, err)
	}
	return err
}

// What a line states is known; what it states as null or - is known to be absent. What it records about the response is a sentence.
// A line that cannot be read says why.
func TestLine(t *testing.T) {
	var l Line
	golden.Lines(t, file, func(line string) string {
		if err := parse(t, &l, line); err != nil {
			return err.Error()
		}
		request, others := fatal.Get(json.Marshal(l.Request))(t), fatal.Get(json.Marshal(l.Others))(t)
		known := slices.Sorted(maps.Keys(l.Known))
		return fmt.Sprintf("%s, %s, %v\n%s\nothers %s\nknown [%s]\n%s", l.Format, l.Time.UTC().Format(time.RFC3339Nano), l.Duration, request, others, strings.Join(known, ", "), l.Recorded())
	})
	for line, want := range map[string]string{
		"":                             "is in no format that Weir reads",
		"{\"ms\":1}\r\n":               "",
		"{}\n{}":                       "or is several lines",
		strings.Repeat("a", MaxLine+1): "has 262145 bytes; a line has at most 262144",
	} {
		if err := parse(t, &l, line); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.99s: %v, want %s", line, err, want)
		}
	}
}

// Whatever a line is: it is read again as the first time, what it has of headers is what another parser finds, and as the user
// agent of a combined log it is read as it was sent.
func FuzzParse(f *testing.F) {
	var used string
	for line := range strings.Lines(string(golden.Content(f, file))) {
		if line, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); found {
			f.Add(line)
			used = cmp.Or(used, line)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		l := new(Line)
		_ = l.Parse([]byte(used))
		err := parse(t, l, line)
		var fields map[string]json.RawMessage
		var headers map[string]any
		if err == nil && l.Format == "" || l.Recorded() == "" {
			t.Errorf("%s: %+v", line, l)
		}
		quoted := new(strings.Builder)
		for _, b := range []byte(line) {
			fmt.Fprintf(quoted, `\x%02x`, b)
		}
		agent := `192.0.2.1 - - [26/Nov/2026:15:37:20 +0100] "GET / HTTP/1.1" 200 - "-" "` + quoted.String() + `"`
		if other := new(Line); len(agent) < MaxLine && line != "-" && (other.Parse([]byte(agent)) != nil || other.Request.Headers["user-agent"] != line) {
			t.Errorf("%s is %+v", agent, other)
		}
		if err != nil || json.Unmarshal([]byte(line), &fields) != nil || json.Unmarshal(fields["headers"], &headers) != nil {
			return
		}
		for name := range headers {
			if strings.ToValidUTF8(name, "") == name && !strings.Contains(name, "\ufffd") && !l.Known[request.HeaderInput(strings.ToLower(name))] && request.HeaderInput(strings.ToLower(name)) != "host" {
				t.Errorf("%s: %q is not known: %+v", line, name, l)
			}
		}
	})
}
