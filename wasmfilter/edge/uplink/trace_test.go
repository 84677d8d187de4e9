package uplink

import (
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
