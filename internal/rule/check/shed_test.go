package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/read"
)

// TestShedMany: a set has at most 16 rules that shed load, those that are off included, and none has a candidate.
func TestShedMany(t *testing.T) {
	rules := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf(`{"name":"a%d","mode":"off","shed":{"capacity":1}},`, i)
		}
		return text + `{"name":"b","key":[],"limit":"5/1m"}`
	}
	classes := strings.TrimSuffix(strings.Repeat(`{"class":"low","match":{"path":"/a"}},`, 16), ",")
	most := strings.Replace(rules(16), `{"capacity":1}`, `{"capacity":1000000,"success":100,"shares":{"bulk":1},"classes":[`+classes+`]}`, 1)
	if _, err := read.JSON([]byte(`{"rules":[` + most + `]}`)); err != nil {
		t.Errorf("16 rules: %v", err)
	}
	_, err := read.JSON([]byte(`{"rules":[` + rules(17) + `]}`))
	if err == nil || !strings.HasSuffix(err.Error(), "rules: has 17 rules with shed; write at most 16") {
		t.Errorf("17 rules: %v", err)
	}
	_, err = read.JSON([]byte(`{"rules":[` + rules(1) + `],"candidates":[{"rule":"a0","limit":"5/1m"}]}`))
	if err == nil || !strings.Contains(err.Error(), `"a0" is no rule with a limit`) {
		t.Errorf("a candidate: %v", err)
	}
}
