package descriptor_test

import (
	"testing"

	"github.com/weirlimit/weir/regional/rls/descriptor"
)

func parse(t testing.TB, text string) *descriptor.Config {
	t.Helper()
	c, err := descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: []byte(text)}}, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUnderscores: a pair is a pair, whatever its parts look like when joined.
func TestUnderscores(t *testing.T) {
	c := parse(t, "{domain: d, descriptors: [{key: a_b, rate_limit: {unit: second, requests_per_unit: 1}}]}")
	if m, ok := c.Match("d", []descriptor.Entry{{Key: "a", Value: "b"}}); ok {
		t.Errorf("(a, b) matches %s", m.Rule.Path)
	}
	if m, ok := c.Match("d", []descriptor.Entry{{Key: "a_b", Value: "c"}}); !ok || m.Rule.Path != "d|a_b" {
		t.Errorf("(a_b, c) matches %v", m.Rule)
	}
}
