package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/read"
)

// TestShedMistakes: each mistake in a rule that sheds load names its field, and what to write instead.
func TestShedMistakes(t *testing.T) {
	const outside = ": does not go with shed, which counts nothing; leave it out"
	class := `{"class":"low","match":{"path":"/a"}}`
	for _, test := range []struct{ fields, want string }{
		{`"shed":{"capacity":1}`, ""},
		{`"shed":{"capacity":1000000,"success":100,"shares":{"bulk":1}}`, ""},
		{`"shed":{"capacity":1,"classes":[` + strings.Repeat(class+",", 15) + class + `]}`, ""},
		{`"shed":{"capacity":0}`, "rules[0].shed.capacity: 0 is out of range; write a whole number from 1 to 1000000"},
		{`"shed":{"capacity":1000001}`, "rules[0].shed.capacity: 1000001 is out of range; write a whole number from 1 to 1000000"},
		{`"shed":{"capacity":"200"}`, `rules[0].shed.capacity: "200" is a string; write a whole number from 1 to 1000000`},
		{`"shed":{}`, "rules[0].shed.capacity: is missing; write how many requests may be in flight at one PoP, such as 200"},
		{`"shed":200`, "rules[0].shed: 200 is a whole number; write a mapping with capacity, profile, success, classes, shares"},
		{`"shed":{"capacity":1,"profile":"medium"}`, `rules[0].shed.profile: "medium" is unknown; write slow or fast`},
		{`"shed":{"capacity":1,"success":0}`, "rules[0].shed.success: 0 is out of range; write a whole number from 1 to 100"},
		{`"shed":{"capacity":1,"success":101}`, "rules[0].shed.success: 101 is out of range; write a whole number from 1 to 100"},
		{`"shed":{"capacity":1,"shares":{"bulk":0}}`, "rules[0].shed.shares.bulk: 0 is out of range; write a whole number from 1 to 100"},
		{`"shed":{"capacity":1,"shares":{"critical":90}}`, "rules[0].shed.shares.critical: unknown field; write normal, low or bulk"},
		{`"shed":{"capacity":1,"shares":{"low":90}}`, "rules[0].shed.shares.low: 90 is more than that of normal, which matters more; write 80 or less"},
		{`"shed":{"capacity":1,"shares":{"normal":50,"low":60,"bulk":70}}`, "rules[0].shed.shares.bulk: 70 is more than that of low, which matters more; write 60 or less\n" +
			"rules[0].shed.shares.low: 60 is more than that of normal, which matters more; write 50 or less"},
		{`"shed":{"capacity":1,"classes":[{"class":"high","match":{"path":"/a"}}]}`, `rules[0].shed.classes[0].class: "high" is unknown; write bulk, low, normal or critical`},
		{`"shed":{"capacity":1,"classes":[{"match":{"path":"/a"}}]}`, "rules[0].shed.classes[0].class: is missing; write critical, normal, low or bulk"},
		{`"shed":{"capacity":1,"classes":[{"class":"low"}]}`, "rules[0].shed.classes[0].match: is missing; write the requests that have the class, such as { path: /checkout }"},
		{`"shed":{"capacity":1,"classes":[{"class":"low","match":{}}]}`, "rules[0].shed.classes[0].match: is empty; write what the requests have, such as { path: /checkout }, or leave the class out: all others are normal"},
		{`"shed":{"capacity":1,"classes":[{"class":"low","match":{"percent":10}}]}`, "rules[0].shed.classes[0].match: percent is of keys, and a class is of requests; leave percent out"},
		{`"shed":{"capacity":1,"classes":[{"class":"low","match":{"path":"/b","not":{"percent":10}}}]}`, "rules[0].shed.classes[0].match: percent is of keys, and a class is of requests; leave percent out"},
		{`"shed":{"capacity":1,"classes":[{"class":"low","match":{"path":"a"}}]}`, `rules[0].shed.classes[0].match.path: "a" never matches: paths begin with /; write "/a"`},
		{`"shed":{"capacity":1,"classes":[` + strings.Repeat(class+",", 16) + class + `]}`, "rules[0].shed.classes: has 17 items; write at most 16"},
		{`"shed":{"capacity":1,"classes":"critical"}`, `rules[0].shed.classes: "critical" is a string; write a list of classes, such as [{ class: critical, match: { path: /checkout } }]`},
		{`"match":{"percent":10},"shed":{"capacity":1}`, "rules[0].match: percent is of keys, and shed goes by the load and not by the key; leave percent out"},
		{`"key":[{"segment":"id"}],"shed":{"capacity":1}`, `rules[0].key[0].segment: "id" must be in each path of the rule, once; write match: { path: { template: '/users/{id}' } } for { segment: id }`},
		{`"limit":"5/1m","shed":{"capacity":1}`, "rules[0].limit" + outside},
		{`"limits":["5/1m"],"overrides":[],"shed":{"capacity":1}`, "rules[0].limits" + outside + "\nrules[0].overrides" + outside},
		{`"from":["b"],"percent":10,"variants":[],"cost":2,"scope":"pop","on_failure":"deny","hash":true,"refusal":{"status":503},"retry_jitter":5,"shed":{"capacity":1}`,
			"rules[0].from" + outside + "\nrules[0].percent" + outside + "\nrules[0].variants" + outside + "\nrules[0].cost" + outside + "\nrules[0].scope" + outside +
				"\nrules[0].on_failure" + outside + "\nrules[0].hash" + outside + "\nrules[0].refusal" + outside + "\nrules[0].retry_jitter" + outside},
		{`"mode":"exempt","shed":{"capacity":1}`, "rules[0].shed: does not go with mode: exempt, which lifts rules and counts nothing; leave it out"},
		{`"headers":["x-draft03","x-unix"],"shed":{"capacity":1}`, "rules[0].headers: has x-draft03 and x-unix, which set the same headers; write one of them"},
	} {
		_, err := read.JSON([]byte(`{"rules":[{"name":"a",` + test.fields + `}]}`))
		got := ""
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				_, line, _ = strings.Cut(line, " ") // the place
				got += line
			}
		}
		if got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.fields, got, test.want)
		}
	}
}

// TestShedMany: a set has at most 16 rules that shed load, those that are off included, and none has a candidate.
func TestShedMany(t *testing.T) {
	rules := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf(`{"name":"a%d","mode":"off","shed":{"capacity":1}},`, i)
		}
		return text + `{"name":"b","key":[],"limit":"5/1m"}`
	}
	if _, err := read.JSON([]byte(`{"rules":[` + rules(16) + `]}`)); err != nil {
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
