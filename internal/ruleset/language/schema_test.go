package language_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/weirlimit/weir/internal/ruleset/language"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"go.yaml.in/yaml/v3"
)

func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc := fatal.Get(jsonschema.UnmarshalJSON(bytes.NewReader(language.Schema())))(t)
	c := jsonschema.NewCompiler()
	fatal.If(t, c.AddResource(language.SchemaPath, doc))
	return fatal.Get(c.Compile(language.SchemaPath))(t)
}

// document reads YAML as a schema validator sees it.
func document(t testing.TB, data []byte) any {
	t.Helper()
	var doc any
	fatal.If(t, yaml.Unmarshal(data, &doc))
	text := fatal.Get(json.Marshal(doc))(t)
	return fatal.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
}

// suffixes are those of the rules that one is expanded into. Only the compiled form has them.
var suffixes = regexp.MustCompile(`"name":"([^"@]*)@[^"]*`)

// TestSchemaTakesGoodFiles: an editor must not mark what Weir takes.
func TestSchemaTakesGoodFiles(t *testing.T) {
	s := schema(t)
	for _, file := range golden.Files(t, "../rulefile/testdata/good_*") {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		if err := s.Validate(document(t, golden.Content(t, file))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		set := fatal.Get(rulefile.Parse(file, golden.Content(t, file)))(t)
		compiled := suffixes.ReplaceAll(set.Encode(), []byte(`"name":"$1`))
		if err := s.Validate(document(t, compiled)); err != nil {
			t.Errorf("compiled form of %s: %v", file, err)
		}
	}
}

// beyondSchema are the mistakes that a schema cannot see, or does not see for the sake of being readable.
var beyondSchema = []string{
	"align_overrides", "block_leased", "block_range", "burst_algorithm", "cost_default", "cost_over_burst",
	"cost_over_override", "duplicate_header", "duplicate_name", "duration_zero", "else_many", "else_never",
	"expected_pops", "header_pseudo", "host_star", "key_two_sources", "key_forwarded_for", "lease_interval", "lease_ttl_exact",
	"lease_ttl_interval", "lease_ttl_log", "leased_burst", "leased_window", "limit_overflow", "limit_per_missing", "limit_period",
	"limit_too_large", "override_key_last", "override_key_pop", "on_failure_status_action", "on_failure_global",
	"path_regex", "path_ignored_parameters", "path_nothing_ignored", "regex", "regex_lookahead", "slots_period",
	"shed_classes", "shed_many", "timeout_range", "duration_order",
	// Not valid YAML, or gone once a YAML library has read it.
	"alias", "braces", "document_second", "duplicate_key", "empty_file", "field_name", "count_hex", "count_float", "merge", "syntax", "tag", "utf8",
}

// TestSchemaRejectsBadFiles: what an editor can mark, it does.
func TestSchemaRejectsBadFiles(t *testing.T) {
	s := schema(t)
	for _, file := range golden.Files(t, "../rulefile/testdata/bad_*.yaml") {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "bad_"), ".yaml")
		if !slices.Contains(beyondSchema, name) && s.Validate(document(t, golden.Content(t, file))) == nil {
			t.Errorf("%s: the schema takes it", file)
		}
	}
}

// TestSchemaHasTheRangesOfTheLanguage tries both ends of ranges that no bad file of package rulefile is beyond, and one more.
func TestSchemaHasTheRangesOfTheLanguage(t *testing.T) {
	s := schema(t)
	for name, test := range map[string]struct {
		doc       string
		low, high int64
	}{
		"count":         {"{ name: a, key: [], limit: { count: %d, per: 366d }, algorithm: fixed_window }", 0, 1<<32 - 1},
		"slots":         {"{ name: a, key: [], limit: %d, algorithm: concurrency }", 0, 1<<24 - 1},
		"overdraft":     {"{ name: a, key: [], limit: 1/1m, consistency: optimistic, overdraft: %d }", 1, 1<<32 - 1},
		"cost max":      {"{ name: a, key: [], limit: 4294967295/1s, algorithm: fixed_window, cost: { header: x, max: %d } }", 1, 1<<32 - 1},
		"expected PoPs": {"{ name: a, key: [], limit: 1/1m, on_failure: { action: local, expected_pops: %d } }", 1, 100_000},
	} {
		for value, legal := range map[int64]bool{test.low - 1: false, test.low: true, test.high: true, test.high + 1: false} {
			doc := fmt.Appendf(nil, "rules: ["+test.doc+"]", value)
			_, err := rulefile.Parse("f", doc)
			if (err == nil) != legal {
				t.Errorf("%s: the language takes %d: %v, want %v (%v)", name, value, err == nil, legal, err)
			}
			if err := s.Validate(document(t, doc)); (err == nil) != legal {
				t.Errorf("%s: the schema takes %d: %v, want %v (%v)", name, value, err == nil, legal, err)
			}
		}
	}
}
