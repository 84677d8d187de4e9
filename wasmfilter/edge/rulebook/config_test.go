package rulebook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// What is wrong with a configuration is reported with its field, and what to write. All fields hold that could be read, and none is
// half of what it states.
func TestReadConfigErrors(t *testing.T) {
	golden.Lines(t, "testdata/config.golden", func(text string) string {
		c, err := ReadConfig([]byte(text))
		if err == nil || c.Rules != nil || c.PagesLog2 != 15 || !c.Headers || c.RulesEvery != 500 {
			t.Errorf("%s: %v, %+v", text, err, c)
		}
		return fmt.Sprintf("%v\nbefore_rules deny: %v, region_cluster: %q, pop: %q\n", err, c.DenyBeforeRules, c.RegionCluster, c.PoP)
	})
}

func TestReadConfig(t *testing.T) {
	c := fatal.Get(ReadConfig([]byte(`{"region_cluster":"r","pop":"fra1","region":"eu","labels":{"tier":"edge"},"jwt_payload":"claims","before_rules":"deny","table_pages":64,
		"rules":{"rules":[{"name":"a","key":[],"limit":"5/1m"}]}}`)))(t)
	if c.RegionCluster != "r" || c.Authority != "r" || c.PoP != "fra1" || !c.DenyBeforeRules || c.PagesLog2 != 6 ||
		c.Region != "eu" || len(c.Labels) != 1 || c.Labels["tier"] != "edge" || c.JWTPayload != "claims" || c.Rules == nil || c.Rules.Len() != 1 || !c.Headers || c.RulesEvery != 500 {
		t.Errorf("%+v", c)
	}
	longest := fmt.Sprintf(`{"region_cluster":"r","pop":%q,"labels":{"tier":%q`,
		strings.Repeat("p", 128), strings.Repeat("e", 64))
	for i := range 15 {
		longest += fmt.Sprintf(`,"l%d":"v"`, i)
	}
	if c, err := ReadConfig([]byte(longest + "}}")); err != nil || len(c.Labels) != 16 || c.JWTPayload != "payload" {
		t.Errorf("%v %+v", err, c)
	}
}
