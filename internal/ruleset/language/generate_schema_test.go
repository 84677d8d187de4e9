package language

import (
	"bytes"
	"encoding/json"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/shed"
)

//go:generate go test . -run ^TestGenerated$ -update

// SchemaPath is where the JSON Schema is in the repository.
const SchemaPath = "schema/rules.schema.json"

// Schema returns the JSON Schema (2020-12) of rules files.
func Schema() []byte {
	var schema map[string]any
	if err := load().Decode(&schema); err != nil {
		panic("language.yaml: " + err.Error())
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(standard(schema)); err != nil {
		panic("language.yaml: " + err.Error())
	}
	return out.Bytes()
}

// standard is a value of a schema without the keywords that only language.yaml has.
func standard(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = standard(v[i])
		}
	case map[string]any:
		for keyword, of := range v {
			switch keyword {
			case "absent", "test", "example", "mistakes":
				delete(v, keyword)
			case "range":
				r := known(ranges, of.(string))
				delete(v, keyword)
				v["minimum"], v["maximum"] = r.Low, r.High
			case "words":
				delete(v, keyword)
				v["enum"] = known(words, of.(string))
			case "properties", "$defs": // have names in the place of keywords
				for name, named := range of.(map[string]any) {
					of.(map[string]any)[name] = standard(named)
				}
			default:
				v[keyword] = standard(of)
			}
		}
	}
	return value
}

// known is what a table has by a name.
func known[T any](all map[string]T, name string) T {
	value, ok := all[name]
	if !ok {
		panic("language.yaml: " + name + " is in no table")
	}
	return value
}

// ranges are the ranges of numbers, by the names in language.yaml.
var ranges = map[string]check.Range{
	"Capacity":          check.CapacityRange,
	"Share":             check.ShareRange,
	"Success":           check.SuccessRange,
	"Anchor":            check.AnchorRange,
	"ActualCost":        {Low: 0, High: limit.MaxCount},
	"Burst":             check.BurstRange,
	"Cost":              check.CostRange,
	"Count":             check.CountRange,
	"CountedStatus":     check.CountedStatusRange,
	"CountedGRPCStatus": check.CountedGRPCStatusRange,
	"PoPs":              check.PoPsRange,
	"GRPCStatus":        check.GRPCStatusRange,
	"Hops":              check.HopsRange,
	"IPv6Prefix":        check.IPv6PrefixRange,
	"Jitter":            check.JitterRange,
	"Overdraft":         check.OverdraftRange,
	"Rejection":         check.RejectionStatusRange,
	"Revision":          check.RevisionRange,
	"Percent":           check.PercentRange,
	"Seed":              check.SeedRange,
	"Slots":             {Low: 0, High: limit.MaxSlots},
	"Weight":            check.WeightRange,
}

// words are the words of the language, by the names in language.yaml.
var words = map[string][]string{
	"Algorithm":   rule.Words[limit.Algorithm](),
	"Align":       rule.Words[limit.Align](),
	"Class":       rule.Words[shed.Class](),
	"Consistency": rule.Words[lease.Consistency](),
	"Sharing":     rule.Words[rule.Sharing](),
	"Mode":        rule.Words[rule.Mode](),
	"OnFailure":   rule.Words[lease.OnFailure](),
	"Profile":     rule.Words[shed.Profile](),
	"Per":         rule.Words[limit.Per](),
	"Scope":       rule.Words[rule.Scope](),
	"Weekday":     rule.Weekdays[:],
}
