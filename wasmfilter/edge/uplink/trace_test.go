package uplink

import (
	"regexp"
	"strings"
	"testing"
)

const goodTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceParent(t *testing.T) {
	later := "cc" + goodTrace[2:]
	for header, want := range map[string]string{
		goodTrace:                       goodTrace,
		later:                           later,
		later + "-what-comes-later":     later,
		later + "-":                     later,
		goodTrace + "-what-comes-later": "",
		later + "01":                    "",
		goodTrace[:54]:                  "",
		goodTrace[:54] + "0":            "", // not sampled
		goodTrace[:53] + "0b":           goodTrace[:53] + "0b",
		goodTrace[:53] + "fa":           "",
		"":                              "",
		"\xff":                          "",
		"ff" + goodTrace[2:]:            "",
		strings.ToUpper(goodTrace):      "",
		goodTrace + "," + goodTrace:     "",
		later + "," + later:             "",
		" " + goodTrace:                 "",
		"00-" + strings.Repeat("0", 32) + goodTrace[35:]:          "",
		goodTrace[:36] + strings.Repeat("0", 16) + goodTrace[52:]: "",
		goodTrace[:53] + "0g":                                     "",
		strings.Replace(goodTrace, "-", "_", 1):                   "",
		strings.Repeat("\xff", 60_000):                            "",
	} {
		if got := TraceParent(header); got != want {
			t.Errorf("%.70q: %q, want %q", header, got, want)
		}
	}
}

// wellFormed is the grammar of the standard.
var wellFormed = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

func FuzzTraceParent(f *testing.F) {
	f.Add(goodTrace)
	f.Add("01" + goodTrace[2:] + "-x")
	f.Add("00-" + strings.Repeat("0", 49))
	f.Fuzz(func(t *testing.T, header string) {
		got := TraceParent(header)
		if got == "" {
			if wellFormed.MatchString(header) && header[:2] != "ff" && isID(header[3:35]) && isID(header[36:52]) && strings.Contains("13579bdf", header[54:]) {
				t.Errorf("%q is well formed", header)
			}
			return
		}
		if !strings.HasPrefix(header, got) || !wellFormed.MatchString(got) || got[:2] == "ff" {
			t.Errorf("%q became %q", header, got)
		}
		if TraceParent(got) != got {
			t.Errorf("%q is not taken again", got)
		}
	})
}
