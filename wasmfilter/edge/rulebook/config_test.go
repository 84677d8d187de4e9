package rulebook

import (
	"fmt"
	"strings"
	"testing"
)

// What is wrong with a configuration is reported with its field, and what to write. All fields hold that could be read, and none is
// half of what it states.
func TestReadConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:     "region_cluster: is missing",
		`deny`: "a value",
		`[]`:   "a mapping",
		`{"before_rules":"deny","region_cluster":7}`:                                                                           "region_cluster: 7",
		`{"region_cluster":"r","before_rules":"deny"`:                                                                          "ends",
		`{"region_cluster":"r","before_rules":"den`:                                                                            "a closing quote",
		`{"before_rules":"deny","before_rules":"allow","region_cluster":7}`:                                                    "given twice",
		`{"region_cluster":"r","before_rules":"denied","pop":"p"}`:                                                             "allow or deny",
		`{"before_rules":"deny","region_cluster":"r","regoin":1}`:                                                              "regoin: unknown field",
		`{"region_cluster":"r","table_pages":100}`:                                                                             "power of two",
		`{"pop":"` + strings.Repeat("p", 129) + `","table_pages":17}`:                                                          "pop: has 129 bytes; write at most 128",
		`{"region_cluster":"r","region":"e u"}`:                                                                                "region: is no name of a region; write 1 to 64 letters, digits, -, . or _",
		`{"region_cluster":"r","region":""}`:                                                                                   "region: is no name",
		`{"region_cluster":"r","labels":{"tier":""}}`:                                                                          "labels.tier: has 0 bytes; write a text of 1 to 64 bytes",
		`{"region_cluster":"r","labels":{"tier":"` + strings.Repeat("e", 65) + `"}}`:                                           "labels.tier: has 65 bytes; write a text of 1 to 64 bytes",
		`{"region_cluster":"r","labels":{"` + strings.Repeat("e", 65) + `":"edge"}}`:                                           "is no name of a label; write 1 to 64 letters, digits, -, . or _",
		`{"region_cluster":"r","labels":{` + manyLabels(17) + `}}`:                                                             "labels: has 17 labels; write at most 16",
		`{"region_cluster":"r","jwt_payload":""}`:                                                                              "jwt_payload: has 0 bytes; write a text of 1 to 256 bytes",
		`{"region_cluster":"r","table_pages":1}`:                                                                               "16",
		`{"region_cluster":"r","rules_every_ms":1}`:                                                                            "100",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a b","limit":"1/1s"}]}}`:                                             "rules.rules[0].name",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a","limit":"99999999999/1s"}]}}`:                                     "rules.rules[0].limit",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a","key":[],"limit":"1/1s","match":{"path":{"regex":"("}}}]}}`:       "missing closing )",
		`{"region_cluster":"r","rules":{"rules":[{"name":"a","key":[],"limit":"1/1m"},{"name":"a","key":[],"limit":"1/1m"}]}}`: "rules.rules[1].name",
	} {
		c, err := ReadConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
		states := func(field string) bool { return strings.Contains(text, field) }
		if c.DenyBeforeRules != states(`"before_rules":"deny"`) || (c.RegionCluster == "r") != states(`"region_cluster":"r"`) ||
			(c.PoP == "p") != states(`"pop":"p"`) || c.Rules != nil || c.PagesLog2 != 15 || !c.Headers || c.RulesEvery != 500 {
			t.Errorf("%s: %+v", text, c)
		}
	}
}

func manyLabels(n int) string {
	var labels []string
	for i := range n {
		labels = append(labels, fmt.Sprintf(`"l%d":"v"`, i))
	}
	return strings.Join(labels, ",")
}

func TestReadConfig(t *testing.T) {
	c, err := ReadConfig([]byte(`{"region_cluster":"r","pop":"fra1","region":"eu","labels":{"tier":"edge"},"jwt_payload":"claims","before_rules":"deny","table_pages":64,
		"rules":{"rules":[{"name":"a","key":[],"limit":"5/1m"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.RegionCluster != "r" || c.Authority != "r" || c.PoP != "fra1" || !c.DenyBeforeRules || c.PagesLog2 != 6 ||
		c.Region != "eu" || len(c.Labels) != 1 || c.Labels["tier"] != "edge" || c.JWTPayload != "claims" || c.Rules == nil || c.Rules.Len() != 1 || !c.Headers || c.RulesEvery != 500 {
		t.Errorf("%+v", c)
	}
	longest := `{"region_cluster":"r","pop":"` + strings.Repeat("p", 128) + `","labels":{"tier":"` + strings.Repeat("e", 64) + `",` + manyLabels(15) + `}}`
	if c, err = ReadConfig([]byte(longest)); err != nil || len(c.Labels) != 16 || c.JWTPayload != "payload" {
		t.Errorf("%v %+v", err, c)
	}
}
