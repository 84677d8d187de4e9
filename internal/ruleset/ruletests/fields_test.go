package ruletests

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestFields: the reader takes the fields that the schema has.
func TestFields(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage
		OneOf      []object // a text or this
	}
	var schema struct {
		Defs map[string]object `json:"$defs"`
	}
	fatal.If(t, json.Unmarshal(golden.Content(t, "../../../schema/rules.schema.json"), &schema))
	expect := schema.Defs["test_expect"].OneOf[1]
	var count object
	fatal.If(t, json.Unmarshal(expect.Properties["count"], &count))
	for name, c := range map[string]struct {
		of   object
		want []string
	}{
		"test": {schema.Defs["test"], testFields}, "pop": {schema.Defs["test_pop"].OneOf[1], popFields}, "request": {schema.Defs["test_request"].OneOf[1], requestFields},
		"step": {schema.Defs["test_step"], stepFields}, "expect": {expect, expectFields}, "count": {count, countFields},
		"response": {schema.Defs["test_response"].OneOf[1], responseFields},
	} {
		if got := slices.Sorted(maps.Keys(c.of.Properties)); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: the schema has %v, the reader %v", name, got, c.want)
		}
	}
}
