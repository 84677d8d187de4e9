package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// withKeys is a document with comments and limits of single keys.
func withKeys(acme int) []byte {
	var b strings.Builder
	b.WriteString("# who may do how much\nrules:\n  - name: per-user\n    key: [{ header: x-user-id }]\n    limit: 5/1m # each\n    overrides:\n")
	b.WriteString("      - { when: { header: { x-tier: gold } }, limit: 50/1m }\n")
	fmt.Fprintf(&b, "      - { key: [acme], limit: %d/1m } # until June\n", acme)
	for i := range 1000 {
		fmt.Fprintf(&b, "      - { key: [customer-%d], limit: %d/1m }\n", i, 10+i)
	}
	b.WriteString("    algorithm: fixed_window\n  - { name: other, key: [], limit: 1/1m }\n")
	return []byte(b.String())
}

// The limits of single keys are in chunks of their own, which the manifest lists apart: a new
// limit of a key leaves the rules' chunks as they are. Documents come back byte for byte.
func TestKeyLimitsAreApart(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	s := open(t, c.Addr)
	first := apply(t, s, withKeys(100), by("begin"))
	inForce(t, s, first.Revision, withKeys(100))
	if rules, _ := first.divide(withKeys(100)); strings.Contains(string(rules), "acme") || strings.Contains(string(rules), "customer-") || !strings.Contains(string(rules), "gold") {
		t.Errorf("among the rules: %s", rules)
	}
	second := apply(t, s, withKeys(200), by("acme pays more"))
	inForce(t, s, second.Revision, withKeys(200))
	if !slices.Equal(first.Chunks, second.Chunks) || slices.Equal(first.KeyLimits.Chunks, second.KeyLimits.Chunks) {
		t.Errorf("chunks %q and %q before, %q and %q after a key's new limit", first.Chunks, first.KeyLimits.Chunks, second.Chunks, second.KeyLimits.Chunks)
	}
	if err := s.Clean(within(t)); err != nil {
		t.Fatal(err)
	}
	if keys := c.keys(); len(keys) != 1+2+3 {
		t.Errorf("keys %q, want the manifest, two versions, a chunk of rules and two of limits", keys)
	}
	third, err := s.Rollback(within(t), 0, by("they do not"))
	if err != nil || !slices.Equal(third.KeyLimits.Chunks, first.KeyLimits.Chunks) {
		t.Errorf("%+v, %v", third, err)
	}
	inForce(t, s, third.Revision, withKeys(100))
	fourth := apply(t, s, document(1), by("without"))
	if fourth.Format != format || fourth.KeyLimits != nil {
		t.Errorf("without limits of keys: %+v", fourth)
	}
	inForce(t, s, fourth.Revision, document(1))
	c.remove(s.chunkKey(first.KeyLimits.Chunks[0]))
	if _, err := s.Document(within(t), first); !errors.As(err, new(*DamagedError)) {
		t.Errorf("with a lost chunk of limits: %v", err)
	}
}

// However a document is written, its parts together are the document.
func TestDividedDocument(t *testing.T) {
	const a, acme = "name: a, key: [{ header: x }], limit: 5/1m", "key: [acme], limit: 6/1m"
	for _, text := range []string{
		"rules: []\n",
		"rules: [{ " + a + ", overrides: [{ " + acme + " }] }]",
		"rules: [{ " + a + ", overrides: [{ " + acme + " }] }, { name: b, key: [{ header: x }], limit: 5/1m, overrides: [{ " + acme + " }] }]\n",
		"rules:\r\n- { " + a + ",\r\n  overrides: [\r\n{ " + acme + " },\r\n{ key: [b], limit: 1/1m } ] }\r\n",
		"rules:\n- name: a\n  overrides:\n  - key:\n    - acme\n    limit:\n      count: 6\n      per: 1m\n  key: [{ header: x }]\n  limit: 5/1m",
		`{"rules":[{"name":"a","key":["path"],"limit":"5/1m","overrides":[` + "\n" + `{"key":["/v1"],"limit":"6/1m"}` + "\n]}]}",
		string(withKeys(7)),
	} {
		var v Version
		v.describe(parsed(t, []byte(text)))
		if rules, keys := v.divide([]byte(text)); string(v.join(rules, keys)) != text || (v.KeyLimits != nil) != (keys != nil) {
			t.Errorf("%q\nis divided into %q\nand %q, together %q", text, rules, keys, v.join(rules, keys))
		}
		if !v.KeyLimits.within(len(text)) {
			t.Errorf("%q: runs %+v", text, v.KeyLimits)
		}
	}
}
