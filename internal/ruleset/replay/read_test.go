package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Lines that cannot be used are counted, and the first five named; a log without any that can is an error.
func TestBroken(t *testing.T) {
	var l log
	l.add(0, "192.0.2.1", "/login", "")
	good := l.String()
	bad := []string{
		"", "no JSON\n", `{"client":"192.0.2.1"}` + "\n", `{"time":"yesterday"}` + "\n", `{"time":"1969-01-01T00:00:00Z"}` + "\n",
		`{"time":"` + strings.Repeat("x", 1<<20) + `"}` + "\n", "[]\n", strings.TrimSuffix(good, "}\n"),
	}
	r := run(t, strings.Join(bad[:4], "")+good+"\n\n"+good+strings.Join(bad[4:], ""), Config{Rules: rules(t, loginRules)})
	want := []string{"line 1: is in no format that Weir reads", "line 2: time: is missing", `line 3: time: "yesterday"`, "line 8: time: is missing, or before 1970", "line 9: has more than"}
	if r.Requests != 2 || r.Broken.Lines != 7 || len(r.Broken.First) != len(want) {
		t.Fatalf("%+v", r)
	}
	for i, text := range want {
		if !strings.HasPrefix(r.Broken.First[i], text) {
			t.Errorf("%s, want %s", r.Broken.First[i], text)
		}
	}
	for log, want := range map[string]string{"": "the log is empty", "\n": "the log is empty", bad[1] + bad[2]: "none of 2 lines can be used: line 1: is in no format"} {
		if _, err := Run(strings.NewReader(log), Config{Rules: rules(t, loginRules)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", log, err, want)
		}
	}
}

// A log may be compressed; one that is cut off is an error.
func TestGzip(t *testing.T) {
	var l log
	for n := range 1000 {
		l.add(time.Duration(n)*time.Second, fmt.Sprint("192.0.2.", n%5), "/login", "")
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(l.Bytes())
	_ = w.Close()
	c := Config{Rules: rules(t, loginRules)}
	if got, want := run(t, packed.String(), c), run(t, l.String(), c); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := Run(bytes.NewReader(packed.Bytes()[:packed.Len()/2]), c); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Error(err)
	}
}
