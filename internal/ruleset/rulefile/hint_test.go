package rulefile_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestFirstTries reads what people write first, in the words of other rate limiters or with a slip: each is refused with
// its line, its field and what to write. In testdata/tries.golden a line with $ is put into a rule that is right but for
// that field.
func TestFirstTries(t *testing.T) {
	const file = "testdata/tries.golden"
	var got strings.Builder
	for line := range strings.Lines(string(golden.Content(t, file))) {
		try, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		got.WriteString(line)
		try = strings.ReplaceAll(strings.TrimSuffix(try, "\n"), `\t`, "\t")
		if _, err := rulefile.Parse("", []byte(around(try))); err != nil {
			got.WriteString(err.Error() + "\n")
		} else {
			t.Errorf("%q is taken; want an error", try)
		}
	}
	golden.Same(t, file, got.String())
}

// around is a document with one rule that has a field as it was tried.
func around(try string) string {
	field, _, _ := strings.Cut(strings.TrimSpace(try), ":")
	text := "rules:\n  - name: a\n"
	for _, line := range []string{"key: [client_ip]", "limit: 5/1m"} {
		if !strings.HasPrefix(line, field+":") {
			text += "    " + line + "\n"
		}
	}
	return text + "    " + try + "\n"
}
