package amend

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const rules = `
rules:
- name: login
  key: [{ header: x-user }]
  limit: 5/1m
  overrides:
  - { when: { header: { x-tier: gold } }, limit: 50/1m }
  - { key: [acme], limit: 7/1m }
  - { key: [brief], limit: 8/1m, until: 2026-11-26T13:00:00Z }
- { name: twice, key: [{ header: x-user }], limits: [5/1m, 20/1d] }
- { name: hidden, key: [{ header: x-user }], limit: 5/1m, hash: true }
- { name: pop, key: [client_ip], limit: 5/1m, scope: pop }
- { name: address, key: [client_ip], limit: 5/1m, overrides: [{ name: vip, key: [192.0.2.1], limit: 9/1m }] }
candidates: [{ rule: address, limit: 3/1m }]
`

func file(t *testing.T, text string) *rulefile.Document {
	t.Helper()
	d, err := rulefile.Read("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func by(n int) Set {
	return Set{When: now.Add(time.Duration(n) * time.Millisecond), Who: "ann", Why: "test"}
}

// override is one of key until an hour after now.
func override(of, key, limit string) Override {
	return Override{Rule: of, Key: []string{key}, Limit: json.RawMessage(limit), Set: Set{Until: now.Add(2 * time.Hour)}}
}

// edited is a document after edits, of which each works.
func edited(t *testing.T, edits ...Edit) *Document {
	t.Helper()
	d := new(Document)
	for i, edit := range edits {
		if _, err := edit(d, by(i)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// counts are the limits of a key of a rule, in the order in which they hold, as count@until in hours after now.
func counts(set *rule.Set, of, key string) string {
	var all []string
	i, found := set.Find(of)
	if !found {
		return "no rule"
	}
	for _, k := range set.Rule(i).Keys {
		if k.Hash != key && (len(k.Key) == 0 || k.Key[0] != key) {
			continue
		}
		text := fmt.Sprint(k.Limit.Count)
		if k.Unlimited {
			text = "unlimited"
		}
		if k.Until != 0 {
			text += fmt.Sprintf("@%d", (k.Until-limit.Micros(now.UnixMicro()))/(3600*limit.Second))
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Overrides and candidates are in the rules, those of the file stand behind them.
func TestMerge(t *testing.T) {
	hash := strings.Repeat("0f", 16)
	hashed := override("hidden", "", `9`)
	hashed.Key, hashed.Hash, hashed.Limit = nil, hash, json.RawMessage(`{"count":9,"per":"1m"}`)
	two := override("twice", "x", `[50/1m]`)
	two.Limit, two.Limits = nil, json.RawMessage(`["50/1m","200/1d"]`)
	d := edited(t,
		SetOverride(override("login", "new", `"70/1m"`)), SetOverride(override("login", "acme", `"unlimited"`)),
		SetOverride(override("login", "brief", `"9/1m"`)), SetOverride(hashed), SetOverride(two),
		SetCandidate(Candidate{Rule: "login", Limit: json.RawMessage(`"3/1m"`), Set: Set{Until: now.Add(time.Hour)}}))
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if d, err = Parse(text); err != nil {
		t.Fatal(err)
	}
	f := file(t, rules)
	set, problems := Merge(f, d)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	for _, c := range []struct{ rule, key, want string }{
		{"login", "new", "70@2"}, {"login", "acme", "unlimited@2 7"}, {"login", "brief", "9@2"}, {"login", "other", ""},
		{"hidden", hash, "9@2"}, {"twice", "x", "50@2"}, {"twice@1d", "x", "200@2"},
		{"login@candidate", "new", "70@2"}, {"address@candidate", "x", ""},
	} {
		if got := counts(set, c.rule, c.key); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.rule, c.key, got, c.want)
		}
	}
	if i, _ := set.Find("login@candidate"); set.Rule(i).Limits[0].Limit.Count != 3 || set.Rule(i).Match.Until != limit.Micros(now.Add(time.Hour).UnixMicro()) {
		t.Errorf("%+v", set.Rule(i))
	}
	if got := counts(f.Set, "login", "acme"); got != "7" || set.Content == f.Set.Content {
		t.Errorf("the file's own rules are changed: %q", got)
	}
	if again, _ := Merge(f, new(Document)); again.Content != f.Set.Content {
		t.Error("without entries they are not the rules of the file")
	}
}

// What does not fit is named, and all else is in force.
func TestMergeWrong(t *testing.T) {
	candidate := func(of, limit string) Edit {
		return SetCandidate(Candidate{Rule: of, Limit: json.RawMessage(limit), Set: Set{Until: now.Add(time.Hour)}})
	}
	f := file(t, rules)
	good := SetOverride(override("login", "good", `"70/1m"`))
	named := override("address", "192.0.2.2", `"1/1m"`)
	named.Name = "vip"
	both := override("login", "x", `"1/1m"`)
	both.Key = []string{"x", "y"}
	for want, edits := range map[string][]Edit{
		"no rule of this name":    {good, SetOverride(override("gone", "x", `"1/1m"`))},
		"2h is not the rule's":    {good, SetOverride(override("login", "x", `"1/2h"`))},
		"has 2 values":            {good, SetOverride(both)},
		"scope: pop":              {SetOverride(override("pop", "192.0.2.1", `"1/1m"`)), good},
		"write its hash":          {SetOverride(override("hidden", "x", `"1/1m"`)), good},
		"is no address":           {SetOverride(override("address", "x", `"1/1m"`)), good},
		"write limits":            {SetOverride(override("twice", "x", `"1/1m"`)), good},
		"is not a limit":          {good, SetOverride(override("login", "x", `"many"`))},
		"has a candidate":         {good, candidate("address", `"1/1m"`)},
		"unlimited is for":        {candidate("login", `"unlimited"`), good},
		"the same key":            {good, SetOverride(override("address", "2001:db8::", `"1/1m"`)), SetOverride(override("address", "2001:DB8::", `"1/1m"`))},
		"is taken":                {good, SetOverride(named)},
		"rule of a candidate: no": {good, candidate("gone", `"1/1m"`)},
	} {
		d := edited(t, edits...)
		set, problems := Merge(f, d)
		if len(problems) != 1 {
			t.Errorf("%s: %v", want, problems)
			continue
		}
		if text := problems[0].String(); !strings.Contains(text, strings.TrimPrefix(want, "rule of a candidate: ")) {
			t.Errorf("%s, want %q", text, want)
		}
		if got := counts(set, "login", "good"); got != "70@2" {
			t.Errorf("%s: the good one is %q", want, got)
		}
	}
}

// Of many entries just those that do not fit are left out, however many keys the rules have.
func TestMergeManyWrong(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	var edits []Edit
	for i := range maxEntries {
		if i%2 == 0 {
			fmt.Fprintf(&text, "- { name: r%d, key: [{ header: x }], limit: 5/1m }\n", i/2)
		}
		period := "1m"
		if i%4 == 0 {
			period = "2m"
		}
		edits = append(edits, SetOverride(override(fmt.Sprintf("r%d", i/2), fmt.Sprint(i), `"9/`+period+`"`)))
	}
	f, began := file(t, text.String()), time.Now()
	set, problems := Merge(f, edited(t, edits...))
	if len(problems) != maxEntries/4 || counts(set, "r0", "0") != "" || counts(set, "r1", "2") != "9@2" {
		t.Errorf("%d problems, %q, %q", len(problems), counts(set, "r0", "0"), counts(set, "r1", "2"))
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}

	f = file(t, "rules: [{ name: a, key: [{ header: x }], limit: 5/1m, variants: [{ name: a, weight: 50 }, { name: b, weight: 50, limit: 6/1m }] }, { name: b, key: [{ header: x }], limit: 5/1m }]")
	set, problems = Merge(f, edited(t, SetOverride(override("a", "x", `"9/1m"`)), SetOverride(override("b", "x", `"9/1m"`))))
	if len(problems) != 1 || problems[0].Override.Rule != "a" || counts(set, "b", "x") != "9@2" {
		t.Errorf("%v", problems)
	}
}

// A change that does not fit is refused, and so is one that puts another one out of force; one that did not fit before is
// no reason.
func TestFit(t *testing.T) {
	f := file(t, rules)
	candidate := Candidate{Rule: "twice", Limit: json.RawMessage(`"9/2h"`), Set: Set{Until: now.Add(time.Hour)}}
	d := edited(t, SetOverride(override("gone", "x", `"1/1m"`)), SetCandidate(candidate), SetOverride(override("login", "x", `"1/1m"`)))
	if err := d.Fit(f, by(2).When); err != nil {
		t.Error(err)
	}
	two := override("twice", "x", "")
	two.Limit, two.Limits = nil, json.RawMessage(`["50/1m","200/1d"]`)
	for want, edit := range map[string]Edit{
		"override of login y: limit.per": SetOverride(override("login", "y", `"1/2m"`)),
		"has another period":             SetOverride(two),
	} {
		changed := &Document{d.Overrides[:2:2], d.Candidates[:1:1]}
		if _, err := edit(changed, by(9)); err != nil {
			t.Fatal(err)
		}
		if err := changed.Fit(f, by(9).When); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Entries replace others of the same rule and key, end, and are removed; mistakes change nothing.
func TestEdit(t *testing.T) {
	d := edited(t, SetOverride(override("login", "x", `"1/1m"`)), SetOverride(override("login", "y", `"1/1m"`)), SetOverride(override("login", "x", `"2/1m"`)))
	if d.Len() != 2 || string(d.Overrides[0].Limit) != `"2/1m"` || d.Overrides[0].Who != "ann" || !d.Overrides[0].When.Equal(by(2).When) {
		t.Errorf("%+v", d)
	}
	short := override("login", "z", `"1/1m"`)
	short.Until = now.Add(90 * time.Minute)
	what, err := SetOverride(short)(d, by(0))
	if want := "override of login z: 1/1m until 2026-11-26T13:30:00Z"; err != nil || what != want {
		t.Errorf("%q, %v, want %q", what, err, want)
	}
	odd := Override{Rule: "login", Key: []string{"a b", "\x1b[1m"}}
	if got, want := odd.On(), `login "a b" "\x1b[1m"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	d.Prune(short.Until.Add(-time.Second))
	if d.Len() != 3 {
		t.Errorf("%d before it ends", d.Len())
	}
	if d.Prune(short.Until); d.Len() != 2 {
		t.Errorf("%d when it ends", d.Len())
	}
	if what, err := RemoveOverride("login", []string{"x"}, "")(d, by(0)); err != nil || what != "override of login x removed" || d.Len() != 1 {
		t.Errorf("%q, %v", what, err)
	}
	past, noKey, both, noLimit := override("login", "x", `"1/1m"`), override("login", "x", `"1/1m"`), override("login", "x", `"1/1m"`), override("login", "x", ``)
	past.Until, noKey.Key, both.Hash, noLimit.Limit = now, nil, "00", nil
	long := override("login", "x", `"`+strings.Repeat("1", maxLimit)+`"`)
	for want, edit := range map[string]Edit{
		"until": SetOverride(past), "key, or hash": SetOverride(noKey), "write one of them": SetOverride(both), "limit, or limits": SetOverride(noLimit),
		"at most 1000": SetOverride(long), "no JSON": SetOverride(override("login", "x", `1/1m`)), "rule is missing": SetOverride(override("", "x", `1`)),
		"the limit is missing": SetCandidate(Candidate{Rule: "x", Set: past.Set}),
	} {
		if _, err := edit(d, by(0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, edit := range []Edit{RemoveOverride("login", []string{"x"}, ""), RemoveOverride("login", nil, "y"), RemoveCandidate("login")} {
		if _, err := edit(d, by(0)); !errors.Is(err, ErrNone) {
			t.Errorf("%v", err)
		}
	}
	if d.Len() != 1 {
		t.Errorf("%+v", d)
	}
}

// A document has bounds, and what is unknown in it is an error.
func TestBounds(t *testing.T) {
	d := new(Document)
	for i := range maxEntries + 1 {
		o := override("login", fmt.Sprint(i), `"1/1m"`)
		if _, err := SetOverride(o)(d, by(0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Encode(); err == nil || !strings.Contains(err.Error(), "1001 overrides") {
		t.Errorf("%v", err)
	}
	d.Overrides = d.Overrides[1:]
	text, err := d.Encode()
	if err != nil || len(text) > MaxBytes {
		t.Errorf("%d bytes (%v)", len(text), err)
	}
	d.Overrides[0].Key = []string{strings.Repeat("x", MaxBytes)}
	if _, err := d.Encode(); err == nil {
		t.Error("more bytes than fit")
	}
	for _, text := range []string{"", "{", "[]", `{"rates":[]}`, `{"overrides":[{"rule":"a","quota":1}]}`, `{"overrides":[` + strings.Repeat("{},", maxEntries) + `{}]}`, strings.Repeat(" ", MaxBytes) + "{}"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
}
