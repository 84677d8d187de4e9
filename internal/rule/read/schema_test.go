package read

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// fieldsByPath are the field names that the language has, by the path of the mapping that has them, with [] for any
// item and {} for any name. A condition under not has those of the condition around it.
func fieldsByPath() map[string][]string {
	fields := map[string][]string{
		"":                               documentFields,
		"client_ip":                      clientIPFields,
		"rules[]":                        ruleFields,
		"rules[].key[]":                  partFields,
		"rules[].key[].client_ip":        clientIPFields,
		"rules[].limit":                  limitFields,
		"rules[].limits[]":               limitFields,
		"rules[].overrides[]":            overrideFields,
		"rules[].overrides[].limit":      limitFields,
		"rules[].overrides[].limits[]":   limitFields,
		"rules[].variants[]":             variantFields,
		"rules[].variants[].limit":       limitFields,
		"rules[].variants[].limits[]":    limitFields,
		"candidates[]":                   candidateFields,
		"candidates[].limit":             limitFields,
		"rules[].cost":                   costFields,
		"rules[].on_limit":               onLimitFields,
		"rules[].count":                  countFields,
		"rules[].cost.metadata":          metadataFields,
		"rules[].cost.estimate":          statedFields,
		"rules[].cost.actual":            settle.Words[:],
		"rules[].cost.estimate.metadata": metadataFields,
		"rules[].cost.actual.metadata":   metadataFields,
		"rules[].key[].metadata":         metadataFields,
		"rules[].on_failure":             onFailureFields,
		"rules[].lease":                  leaseFields,
		"rules[].rejection":              rejectionFields,
		"rules[].shed":                   shedFields,
		"rules[].shed.shares":            shareFields,
		"rules[].shed.classes[]":         classFields,
	}
	for _, at := range []string{"rules[].match", "rules[].overrides[].when", "rules[].shed.classes[].match"} {
		fields[at], fields[at+".path"], fields[at+".percent"] = matchFields, pathFields, percentFields
		for _, kind := range []string{"header", "query", "cookie", "claim", "metadata", "label"} {
			fields[at+"."+kind+"{}"] = namedFields
		}
	}
	return fields
}

// TestSchemaHasTheFieldsOfTheLanguage walks the JSON Schema, which package language generates, and compares the
// names of fields, and which of them there are, with the reader's own lists.
func TestSchemaHasTheFieldsOfTheLanguage(t *testing.T) {
	schema := fatal.Get(jsonschema.NewCompiler().Compile("../../../schema/rules.schema.json"))(t)
	got := map[string][]string{}
	collect(schema, "", got, nil)
	want := fieldsByPath()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if g, w := slices.Sorted(slices.Values(got[path])), slices.Sorted(slices.Values(want[path])); !slices.Equal(g, w) {
			t.Errorf("fields of %q:\nschema   %v\nlanguage %v", path, g, w)
		}
		delete(got, path)
	}
	for path := range got { // package ruletests reads these
		if strings.HasPrefix(path, "tests[]") {
			delete(got, path)
		}
	}
	if len(got) > 0 {
		t.Errorf("only the schema has %v", got)
	}
}

// collect notes the fields of every mapping of s. A list that is an alternative to
// its only item has the path of the item.
func collect(s *jsonschema.Schema, path string, fields map[string][]string, seen []*jsonschema.Schema) {
	if s == nil || slices.Contains(seen, s) {
		return
	}
	seen = append(slices.Clip(seen), s)
	collect(s.Ref, path, fields, seen)
	for _, alternative := range s.OneOf {
		if alternative.Types != nil && alternative.Types.String() == "[array]" {
			continue
		}
		collect(alternative, path, fields, seen)
	}
	for name, property := range s.Properties {
		fields[path] = append(fields[path], name)
		collect(property, strings.TrimPrefix(path+"."+name, "."), fields, seen)
	}
	if items, ok := s.Items2020, s.Items2020 != nil; ok {
		collect(items, path+"[]", fields, seen)
	}
	if names, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		collect(names, path+"{}", fields, seen)
	}
}
