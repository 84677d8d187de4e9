package edge

import (
	"strings"
	"testing"
)

// What is wrong with a configuration is said with its field, and what to write.
func TestReadConfigErrors(t *testing.T) {
	for text, says := range map[string]string{
		``:                     "region_cluster: is missing",
		`{`:                    "ends",
		`[]`:                   "a mapping",
		`{"region_cluster":7}`: "region_cluster: 7",
		`{"region_cluster":"r","before_rules":"maybe"}`:                                                                        "allow or deny",
		`{"region_cluster":"r","regoin":1}`:                                                                                    "regoin: unknown field",
		`{"region_cluster":"r","table_pages":100}`:                                                                             "power of two",
		`{"region_cluster":"r","table_pages":1}`:                                                                               "16",
		`{"region_cluster":"r","calls_in_flight":0}`:                                                                           "from 1 to 64",
		`{"region_cluster":"r","rules_every_ms":1}`:                                                                            "100",
		`{"region_cluster":"r","test_hooks":"yes"}`:                                                                            "true or false",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a b","limit":"1/1s"}]}}`:                                             "rules.rules[0].name",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a","limit":"99999999999/1s"}]}}`:                                     "rules.rules[0].limit",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a","key":[],"limit":"1/1s","match":{"path":{"regex":"("}}}]}}`:       "missing closing )",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a","key":[],"limit":"1/1m"},{"name":"a","key":[],"limit":"1/1m"}]}}`: "rules.rules[1].name",
	} {
		_, err := ReadConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s\n got %v\nwant %s", text, err, says)
		}
	}
}

func TestReadConfig(t *testing.T) {
	c, err := ReadConfig([]byte(`{"region_cluster":"r","pop":"fra1","before_rules":"deny","table_pages":64,
		"rules":{"rules":[{"name":"a","key":[],"limit":"5/1m"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.RegionCluster != "r" || c.Authority != "r" || c.PoP != "fra1" || !c.DenyBeforeRules || c.PagesLog2 != 6 ||
		c.Rules == nil || c.Rules.Len() != 1 || !c.Headers || c.CallsInFlight != 4 || c.RulesEvery != 5000 {
		t.Errorf("%+v", c)
	}
}

// Whatever the text: an error or a configuration that a worker can start with.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"region_cluster":"r","table_pages":64,"rules":{"rules":[]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadConfig(text)
		if err != nil {
			return
		}
		New(c, newMemory(), [6]uint64{1, 2, 3, 4, 5, 6}, 1, 1)
	})
}
