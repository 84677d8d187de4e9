package descriptor_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// branch is a descriptor of a file as the twin sees it. It is written as JSON, which is YAML.
type branch struct {
	Key         string     `json:"key"`
	Value       string     `json:"value,omitempty"`
	Share       bool       `json:"share_threshold,omitempty"`
	RateLimit   *rateLimit `json:"rate_limit,omitempty"`
	Descriptors []branch   `json:"descriptors,omitempty"`
}

type rateLimit struct {
	Unit            string `json:"unit"`
	RequestsPerUnit int    `json:"requests_per_unit"`
	Name            string `json:"name"` // different for each
}

// The alphabets are small, so that much nearly matches, and have what joined strings would confuse.
var (
	aKey     = rapid.StringMatching(`[ab_|=%\\]{1,3}`)
	aValue   = rapid.StringMatching(`[ab_|\\]{0,4}`)
	aPattern = rapid.StringMatching(`[ab]{0,2}\*[ab|]{0,2}(\*[ab]{0,2}){0,2}`)
)

func branches(t *rapid.T, depth int, rules *int) []branch {
	var bs []branch
	seen := map[descriptor.Entry]bool{}
	keys := rapid.SliceOfN(aKey, 1, 2).Draw(t, "keys")
	for range rapid.IntRange(0, 6).Draw(t, "branches") {
		b := branch{
			Key:   rapid.SampledFrom(keys).Draw(t, "key"),
			Value: rapid.OneOf(rapid.Just(""), aValue, aPattern, aPattern).Draw(t, "value"),
		}
		at := descriptor.Entry{Key: b.Key, Value: b.Value}
		if seen[at] {
			continue
		}
		seen[at] = true
		b.Share = strings.Contains(b.Value, "*") && rapid.Bool().Draw(t, "share")
		if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
			*rules++
			b.RateLimit = &rateLimit{"second", 1, "r" + strconv.Itoa(*rules)}
		}
		if depth > 1 {
			b.Descriptors = branches(t, depth-1, rules)
		}
		bs = append(bs, b)
	}
	return bs
}

// naiveGlob tries every length for each star.
func naiveGlob(pattern, value string) bool {
	switch {
	case pattern == "":
		return value == ""
	case pattern[0] == '*':
		return naiveGlob(pattern[1:], value) || value != "" && naiveGlob(pattern, value[1:])
	default:
		return value != "" && pattern[0] == value[0] && naiveGlob(pattern[1:], value[1:])
	}
}

// pick is the branch of a level that an entry takes, nil if none.
func pick(bs []branch, e descriptor.Entry) *branch {
	var exact, wild, alone *branch
	for i := len(bs) - 1; i >= 0; i-- {
		b := &bs[i]
		switch {
		case b.Key != e.Key:
		case b.Value == "":
			alone = b
		case b.Value == e.Value:
			exact = b
		case strings.Contains(b.Value, "*") && naiveGlob(b.Value, e.Value):
			wild = b // the first, as the loop goes backwards
		}
	}
	for _, b := range []*branch{exact, wild, alone} {
		if b != nil {
			return b
		}
	}
	return nil
}

// seek returns the name of a descriptor's rule and what names its counter.
func seek(bs []branch, es []descriptor.Entry) (rule, counter string) {
	var open []string
	for i, e := range es {
		b := pick(bs, e)
		if b == nil {
			return "", ""
		}
		if b.Value == "" || strings.Contains(b.Value, "*") && !b.Share {
			open = append(open, e.Value)
		}
		if i == len(es)-1 && b.RateLimit != nil {
			text, _ := json.Marshal(open)
			return b.RateLimit.Name, b.RateLimit.Name + string(text)
		}
		bs = b.Descriptors
	}
	return "", ""
}

// walk draws a descriptor that has good chances to match.
func walk(t *rapid.T, bs []branch) []descriptor.Entry {
	var es []descriptor.Entry
	for len(bs) > 0 && (len(es) == 0 || rapid.IntRange(0, 3).Draw(t, "on") > 0) {
		b := rapid.SampledFrom(bs).Draw(t, "branch")
		e := descriptor.Entry{Key: b.Key, Value: aValue.Draw(t, "other")}
		if rapid.Bool().Draw(t, "fits") {
			e.Value = strings.ReplaceAll(b.Value, "*", rapid.StringMatching(`[ab*]{0,2}`).Draw(t, "star"))
		}
		es = append(es, e)
		next := pick(bs, e)
		if next == nil {
			break
		}
		bs = next.Descriptors
	}
	if len(es) == 0 || rapid.IntRange(0, 9).Draw(t, "more") == 0 {
		es = append(es, descriptor.Entry{Key: aKey.Draw(t, "any key"), Value: aValue.Draw(t, "any value")})
	}
	return es
}

// TestMatchIsNaive: the look-up finds what trying everything finds, and two descriptors share a counter exactly if they
// share the rule and the values that the file leaves open.
func TestMatchIsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules int
		bs := branches(t, 3, &rules)
		text := fatal.Get(json.Marshal(map[string]any{"domain": "d", "descriptors": bs}))(t)
		c, err := descriptor.Parse([]descriptor.File{{Name: "f", Data: text}}, descriptor.Options{})
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		toTwin, toOurs := map[string]string{}, map[string]string{}
		for range 20 {
			es := walk(t, bs)
			r := c.Match("d", es)
			rule, counter := seek(bs, es)
			if (r != nil) != (rule != "") || r != nil && r.Name != rule {
				t.Fatalf("%s\n%q finds %v, want %s", text, es, r, rule)
			}
			if r == nil {
				continue
			}
			ours := r.Path + "\x00" + string(r.AppendKey(nil, es))
			if other, ok := toTwin[ours]; ok && other != counter {
				t.Fatalf("%s\n%q counts on %q, as does %q", text, es, ours, other)
			}
			if other, ok := toOurs[counter]; ok && other != ours {
				t.Fatalf("%s\n%q counts on %q, and elsewhere on %q", text, es, ours, other)
			}
			toTwin[ours], toOurs[counter] = counter, ours
		}
	})
}
