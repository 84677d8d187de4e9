package rule_test

import (
	"fmt"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
)

// A document is checked as a whole, and knows which parts of a request its rules use. A request then
// has a key and a limit for each rule that applies to it.
func Example() {
	set, err := read.JSON([]byte(`{"rules":[{"name":"api","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user-id"}],
		"limit":"100/1m","overrides":[{"when":{"header":{"x-tier":"gold"}},"limit":"1000/1m"}]}]}`))
	if err != nil {
		panic(err)
	}
	fmt.Println("it uses", set.Inputs().Headers)

	var request rule.Request
	request.Reset(set.Inputs())
	request.Add(set.Inputs(), ":path", "/v1/orders")
	request.Add(set.Inputs(), "x-user-id", "ann")
	request.Add(set.Inputs(), "x-tier", "gold")
	var m rule.Matches
	set.Match(&request, &m)
	for _, hit := range m.Hits {
		fmt.Printf("%s: key %s, limit %d\n", set.Rule(hit.Rule).Name, hit.Key, set.Limit(hit.Rule, hit.Variant).Spec().Count)
	}
	// Output:
	// it uses [:path x-tier x-user-id]
	// api: key ann, limit 1000
}
