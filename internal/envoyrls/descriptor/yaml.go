package descriptor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"go.yaml.in/yaml/v2"
)

// document is a file as envoyproxy/ratelimit decodes it, with the library that it uses: YAML 1.1
// with anchors, aliases and merges.
type document struct {
	Domain      at[string]
	Descriptors descriptors
}

type descriptors []at[descriptor]

type descriptor struct {
	Key            string
	Value          string
	RateLimit      at[rateLimit] `yaml:"rate_limit"`
	ShadowMode     bool          `yaml:"shadow_mode"`
	QuotaMode      bool          `yaml:"quota_mode"`
	DetailedMetric bool          `yaml:"detailed_metric"`
	ValueToMetric  bool          `yaml:"value_to_metric"`
	ShareThreshold bool          `yaml:"share_threshold"`
	Metadata       at[map[string]any]
	Descriptors    descriptors
}

type rateLimit struct {
	Unit            string
	RequestsPerUnit *uint32 `yaml:"requests_per_unit"`
	Unlimited       bool
	Name            string
	Replaces        replacements
}

type replacements []at[replaced]

type replaced struct{ Name string }

// fieldNames are the fields of all these types. envoyproxy/ratelimit ignores one of them in
// another type, and rejects all other fields.
var fieldNames = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric",
	"share_threshold", "metadata", "unit", "requests_per_unit", "unlimited", "name", "replaces",
}

// at is a value and its line, which is that of the anchor for an alias. The zero value is a field
// that is absent or null.
type at[T any] struct {
	value T
	line  int
}

// UnmarshalYAML finds the line in an error, as yaml/v2 states it nowhere else: nothing can be
// decoded into a channel. An error that states no line gets that of the value.
func (a *at[T]) UnmarshalYAML(decode func(any) error) error {
	var nothing chan struct{}
	for _, e := range mistakes(decode(&nothing)) {
		a.line = e.Pos.Line
	}
	err := decode(&a.value)
	if all := mistakes(err); len(all) == 1 && all[0].Pos.Line == 0 {
		return fmt.Errorf("yaml: line %d: %s", a.line, all[0].Reason)
	}
	return err
}

var yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// mistakes are the mistakes that an error of yaml/v2 is about.
func mistakes(err error) (all []strict.Error) {
	if err == nil {
		return nil
	}
	texts := []string{err.Error()}
	if types := (*yaml.TypeError)(nil); errors.As(err, &types) {
		texts = types.Errors
	}
	for _, text := range texts {
		m := yamlError.FindStringSubmatch(text)
		line, _ := strconv.Atoi(m[1])
		all = append(all, strict.Error{Pos: strict.Pos{Line: line}, Reason: text[len(m[0]):]})
	}
	return all
}

// fieldError is what only the strict mode of yaml/v2 reports.
var fieldError = regexp.MustCompile(`^field (.*) (not found|already set) in type `)

// decode reads the first document of a file; nil: it has mistakes.
func (r *reader) decode(data []byte) *at[document] {
	doc, decoder, errs := &at[document]{}, yaml.NewDecoder(bytes.NewReader(data)), len(r.errs)
	if err := decoder.Decode(doc); !errors.Is(err, io.EOF) {
		for _, e := range mistakes(err) {
			r.fail(e.Pos.Line, "", e.Reason)
		}
	}
	for _, e := range mistakes(yaml.UnmarshalStrict(data, new(at[document]))) {
		m := fieldError.FindStringSubmatch(e.Reason)
		switch {
		case m == nil: // found by Decode, too
		case m[2] == "already set":
			r.warn(e.Pos.Line, m[1], "is given twice, and the last one counts; remove one")
		case slices.Contains(fieldNames, m[1]):
			r.warn(e.Pos.Line, m[1], "has no effect here, only in another mapping")
		default:
			r.fail(e.Pos.Line, m[1], "is unknown; the fields are "+strings.Join(fieldNames, ", "))
		}
	}
	if len(r.errs) > errs {
		return nil
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		r.warn(0, "", "a second document begins, which is not read; write one document per file")
	}
	return doc
}
