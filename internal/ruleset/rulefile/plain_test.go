package rulefile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// byLibrary reads a text with the YAML library alone.
func byLibrary(text []byte) (*strict.Node, strict.Errors) {
	var errs strict.Errors
	doc, _, _ := Documents(text)
	if doc == nil {
		return nil, errs
	}
	n := (&converter{errs: &errs}).node(doc.Content[0], "", 0)
	return &n, errs
}

// TestPlainLines: every text means what it means to the YAML library, wherever it has lines that look like limits of keys.
func TestPlainLines(t *testing.T) {
	lines := []string{
		"- { key: [acme-%d], limit: 500/1m }", `- { key: ["10.0.0.%d"], limit: 5/1h }`, "- { key: [a_%d, \"#\"], limit: 1/1s }",
		"- { name: n%d, key: [acme], limit: 5/month, until: 2026-12-01T00:00:00Z }", "- { key: [%d/a, a-], limit: unlimited }", `- { hash: "%d", limit: 1/1s }`,
		"- { key: [%d], limit: 500/1m }", "- { key: [acme-%d], limit: 500/1m } # a comment", "- { key: [acme-%d], limit: 500 }", "",
		`- { key: ["\u00%d"], limit: 500/1m }`, "- { key: [a%d], limit: 1e3/1m }\r", "- [a%d]", "  - { key: [b-%d], limit: 1/1s }", "- {key: [a-%d], limit: 1/1m}",
		"- { key: [yes, on, y], limit: 1/%dm }", "- { key: [true], limit: 1/%dm }", "- { key: [nULL], limit: 1/%dm }", "- { key: [Null], limit: 1/%dm }",
		"- { key: [a], until: 2026-13-01T00:00:00Z }", "- { key: [a], until: 2026-12-01 }", "- { key: [a], until: 2026-12-01T00:00:00.5+01:00 }", "- { key: [a], key: [b] }",
		"- { key: [] }", "- { }", "-  }", "- { key: [a-%d] } x", "- { limit: -/ }", "- { limit: /1 }", "- { limit: 5/1m: }", "- { limit: a:b }", "- { limit: 1_0 }", "- { limit: -5/1m }", "- { until: 2026-12-01T00:00:00Z: }",
		"- { true: [a] }", "- { key: [\"é\"], limit: 1/1m }", "- { key: [\"\x01\"] }", "- { key: [a%d:], limit: 1/1m }", "---", "other: |", "other: \"", "\"", "more: [", "]", "- |",
	}
	heads := []string{"", "rules:\n", "rules:\n- overrides:\n", "x: |\n", "x: \"\n", "x: [\n", "# c\n"}
	breaks := []string{"\r", "\u0085", "\u2028", "\u2029"}
	runs, seeds := 0, uint64(1000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		if rnd.IntN(4) == 0 { // lines that the library counts
			b.WriteString("# " + strings.Repeat(breaks[rnd.IntN(len(breaks))]+"# ", 1+rnd.IntN(leastRun)) + "\n")
		}
		b.WriteString(heads[rnd.IntN(len(heads))])
		indent := strings.Repeat(" ", rnd.IntN(5))
		for range 1 + rnd.IntN(3) {
			for i := range leastRun + rnd.IntN(3) {
				fmt.Fprintf(&b, indent+lines[rnd.IntN(6)]+"\n", i)
			}
			for range rnd.IntN(3) {
				line := lines[rnd.IntN(len(lines))]
				if strings.Contains(line, "%d") {
					line = fmt.Sprintf(line, rnd.IntN(100))
				}
				b.WriteString(indent + line + "\n")
			}
		}
		text := []byte(b.String())
		rest, found := plainRuns(text)
		if found == nil {
			continue
		}
		got, ok := parsePlain(rest, found)
		if !ok {
			continue // the library reads it
		}
		runs++
		if want, errs := byLibrary(text); len(errs) > 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %v, the library finds %d mistakes in\n%s", seed, got, len(errs), text)
		}
	}
	if runs < int(seeds)/10 {
		t.Errorf("only %d texts were read by lines", runs)
	}
}

// TestPlainForms: overrides by key in each of their forms are read by lines.
func TestPlainForms(t *testing.T) {
	for _, line := range []string{
		"{ key: [acme], limit: 5/1m }", "{ key: [acme, \"10.0.0.1\", a/b], limit: 5/month }", "{ key: [a-1], limit: unlimited, until: 2026-12-01T00:00:00Z }",
		"{ name: acme, key: [a-1], limit: 5/1m, until: \"2026-12-01T00:00:00Z\" }", "{ hash: \"00112233445566778899aabbccddeeff\", limit: 5/1m }",
		"{ limit: 5/1m, key: [a-1] }", "{ key: [a-1], limits: [5/1m, 20/1d] }",
	} {
		rest, runs := plainRuns([]byte(strings.Repeat("- "+line+"\n", 2*leastRun)))
		if n, ok := parsePlain(rest, runs); runs == nil || !ok || len(n.Items) != 2*leastRun {
			t.Errorf("%s: the library reads it", line)
		}
	}
}

// TestDirectoryOfManyKeys: to read a directory takes little more memory than to read its files, and its text is read by
// lines, too.
func TestDirectoryOfManyKeys(t *testing.T) {
	text := []byte("rules:\n- name: a\n  key: [host]\n  limit: 5/1m\n  overrides:\n")
	for i := range 3000 {
		text = fmt.Appendf(text, "  - { name: n-%d, key: [\"acme-%d\"], limit: 7/1m, until: 2036-12-01T00:00:00Z }\n", i, i)
	}
	d := &Document{}
	file := testing.AllocsPerRun(1, func() { _, _ = Read("a.yaml", text) })
	directory := testing.AllocsPerRun(1, func() { d, _ = Merge("d", []File{{Name: "d/a.yaml", Data: text}}) })
	if d == nil || directory > 2*file {
		t.Fatalf("%.0f allocations for the directory, and %.0f for the file", directory, file)
	}
	if _, runs := plainRuns(d.Text); runs == nil {
		t.Errorf("the library reads the text, which begins\n%.300s", d.Text)
	}
}

// TestPlainRunsAreSmall: many runs take no more memory than one.
func TestPlainRunsAreSmall(t *testing.T) {
	text := []byte(strings.Repeat(strings.Repeat("- { key: [acme-1], limit: 5/1m }\n", 2*leastRun)+"x\n", 200))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	plainRuns(text)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 100*uint64(len(text)) {
		t.Errorf("%d bytes for a text of %d", bytes, len(text))
	}
}
