package amend

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
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
	return fatal.Get(rulefile.Read("rules.yaml", []byte(text)))(t)
}

// at is an edit that ann makes so many milliseconds after now.
func (e Edit) at(n int) Edit {
	e.When, e.Who, e.Why = now.Add(time.Duration(n)*time.Millisecond), "ann", "test"
	return e
}

// one is an override of a key until two hours after now.
func one(of, key, limit string) Amendment {
	return Amendment{Rule: of, Key: []string{key}, Limit: json.RawMessage(limit), Until: now.Add(2 * time.Hour)}
}

// candidate is one until an hour after now.
func candidate(of, limit string) Edit {
	return Edit{Entry: Entry{Kind: Candidate, Amendment: Amendment{Rule: of, Limit: json.RawMessage(limit), Until: now.Add(time.Hour)}}}
}

// set is the edit that sets an override, and gone the one that removes it.
func set(a Amendment) Edit  { return Edit{Entry: Entry{Kind: Override, Amendment: a}} }
func gone(a Amendment) Edit { return Edit{Entry: Entry{Kind: Override, Amendment: a}, Remove: true} }

// merged is what [Merge] returns, and the problems.
func merged(f *rulefile.Document, d *Document) (*rule.Set, []string) {
	set := Merge(f, d)
	return set, d.Problems()
}

// edited is a document after edits, of which each works.
func edited(t *testing.T, edits ...Edit) *Document {
	t.Helper()
	d := new(Document)
	for i, edit := range edits {
		_, _, err := edit.at(i).apply(d)
		fatal.If(t, err)
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
		if k.Key[0] != key && k.Key[0] != `\h`+key {
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
	hashed := one("hidden", "", `9`)
	hashed.Key, hashed.Hash, hashed.Limit = nil, hash, json.RawMessage(`{"count":9,"per":"1m"}`)
	two := one("twice", "x", `[50/1m]`)
	two.Limit, two.Limits = nil, json.RawMessage(`["50/1m","200/1d"]`)
	d := edited(t,
		set(one("login", "new", `"70/1m"`)), set(one("login", "acme", `"unlimited"`)),
		set(one("login", "brief", `"9/1m"`)), set(hashed), set(two),
		candidate("login", `"3/1m"`))
	d = fatal.Get(Parse(fatal.Get(d.Encode())(t)))(t)
	f := file(t, rules)
	all, problems := merged(f, d)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	for _, c := range []struct{ rule, key, want string }{
		{"login", "new", "70@2"}, {"login", "acme", "unlimited@2 7"}, {"login", "brief", "9@2"}, {"login", "other", ""},
		{"hidden", hash, "9@2"}, {"twice", "x", "50@2"}, {"twice@1d", "x", "200@2"},
		{"login@candidate", "new", "70@2"}, {"address@candidate", "x", ""},
	} {
		if got := counts(all, c.rule, c.key); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.rule, c.key, got, c.want)
		}
	}
	if i, _ := all.Find("login@candidate"); all.Rule(i).Limits[0].Limit.Count != 3 || all.Rule(i).Match.Until != limit.Micros(now.Add(time.Hour).UnixMicro()) {
		t.Errorf("%+v", all.Rule(i))
	}
	if got := counts(f.Set, "login", "acme"); got != "7" || all.Content == f.Set.Content {
		t.Errorf("the file's own rules are changed: %q", got)
	}
	if again := Merge(f, new(Document)); again.Content != f.Set.Content {
		t.Error("without entries they are not the rules of the file")
	}
}

// What does not fit is named, and all else is in force.
func TestMergeWrong(t *testing.T) {
	f := file(t, rules)
	good := set(one("login", "good", `"70/1m"`))
	named := one("address", "192.0.2.2", `"1/1m"`)
	named.Name = "vip"
	both := one("login", "x", `"1/1m"`)
	both.Key = []string{"x", "y"}
	for want, edits := range map[string][]Edit{
		"no rule of this name":       {good, set(one("gone", "x", `"1/1m"`))},
		"2h differs from the period": {good, set(one("login", "x", `"1/2h"`))},
		"has 2 values":               {good, set(both)},
		"scope: pop":                 {set(one("pop", "192.0.2.1", `"1/1m"`)), good},
		"write its hash":             {set(one("hidden", "x", `"1/1m"`)), good},
		"is no address":              {set(one("address", "x", `"1/1m"`)), good},
		"write limits":               {set(one("twice", "x", `"1/1m"`)), good},
		"is not a limit":             {good, set(one("login", "x", `"many"`))},
		"has a candidate":            {good, candidate("address", `"1/1m"`)},
		"unlimited is for":           {candidate("login", `"unlimited"`), good},
		"the same key":               {good, set(one("address", "2001:db8::", `"1/1m"`)), set(one("address", "2001:DB8::", `"1/1m"`))},
		"is taken":                   {good, set(named)},
		"rule of a candidate: no":    {good, candidate("gone", `"1/1m"`)},
	} {
		d := edited(t, edits...)
		all, problems := merged(f, d)
		if len(problems) != 1 || !strings.Contains(problems[0], strings.TrimPrefix(want, "rule of a candidate: ")) {
			t.Errorf("%v, want one with %q", problems, want)
		}
		if got := counts(all, "login", "good"); got != "70@2" {
			t.Errorf("%s: the good one is %q", want, got)
		}
	}
}

// Of many entries just those that do not fit are left out.
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
		edits = append(edits, set(one(fmt.Sprintf("r%d", i/2), fmt.Sprint(i), `"9/`+period+`"`)))
	}
	f := file(t, text.String())
	all, problems := merged(f, edited(t, edits...))
	if len(problems) != maxEntries/4 || counts(all, "r0", "0") != "" || counts(all, "r1", "2") != "9@2" {
		t.Errorf("%d problems, %q, %q", len(problems), counts(all, "r0", "0"), counts(all, "r1", "2"))
	}
	f = file(t, "rules: [{ name: a, key: [{ header: x }], limit: 5/1m, variants: [{ name: a, weight: 50 }, { name: b, weight: 50, limit: 6/1m }] }, { name: b, key: [{ header: x }], limit: 5/1m }]")
	all, problems = merged(f, edited(t, set(one("a", "x", `"9/1m"`)), set(one("b", "x", `"9/1m"`))))
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "override of a x: ") || counts(all, "b", "x") != "9@2" {
		t.Errorf("%v", problems)
	}
}

// A change that does not fit is rejected, and so is one that puts another one out of force; one that did not fit before is
// no reason.
func TestChange(t *testing.T) {
	f := file(t, rules)
	d := edited(t, set(one("gone", "x", `"1/1m"`)), candidate("twice", `"9/2h"`))
	if _, after, err := d.Change(f, set(one("login", "x", `"1/1m"`)).at(2)); err != nil || !strings.HasPrefix(after, "override of login x: 1/1m until ") {
		t.Errorf("%q, %v", after, err)
	}
	two := one("twice", "x", "")
	two.Limit, two.Limits = nil, json.RawMessage(`["50/1m","200/1d"]`)
	for want, edit := range map[string]Edit{
		"override of login y: limit.per": set(one("login", "y", `"1/2m"`)),
		"has another period":             set(two),
		ErrNone.Error():                  gone(one("login", "z", "")),
	} {
		changed := &Document{slices.Clone(d.Entries)}
		if _, _, err := changed.Change(f, edit.at(9)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A new override allows at most a hundred times what its rule does, and ends in at most 30 days. One that was set stays when
// the rule becomes smaller.
func TestCaps(t *testing.T) {
	const text = `rules:
- { name: a, key: [{ header: x }], limit: 5/1m }
- { name: none, key: [{ header: x }], limit: 0/1m }
- { name: burst, key: [{ header: x }], algorithm: token_bucket, limit: { count: 5, per: 1m, burst: 7 } }
- { name: two, key: [{ header: x }], limits: [5/1m, 20/1d] }
`
	f := file(t, text)
	late, end := one("a", "x", `"5/1m"`), one("a", "x", `"5/1m"`)
	late.Until, end.Until = now.Add(30*24*time.Hour+time.Second), now.Add(30*24*time.Hour)
	two, wide := one("two", "x", ""), one("two", "x", "")
	two.Limit, two.Limits = nil, json.RawMessage(`["500/1m","2000/1d"]`)
	wide.Limit, wide.Limits = nil, json.RawMessage(`["500/1m","2001/1d"]`)
	for _, c := range []struct {
		edit Edit
		want string // empty: it may be set
	}{
		{set(one("a", "x", `"500/1m"`)), ""},
		{set(one("a", "x", `"501/1m"`)), "override of a x: more than 500, the most for a key of rule a: 100 times its own, or 1000 if that is 0; set a lower limit, or write the override into the rules file"},
		{set(one("a", "x", `"unlimited"`)), "more than 500"},
		{set(one("none", "x", `"1000/1m"`)), ""},
		{set(one("none", "x", `"1001/1m"`)), "more than 1000"},
		{set(one("burst", "x", `{"count":500,"per":"1m","burst":700}`)), ""},
		{set(one("burst", "x", `{"count":500,"per":"1m","burst":701}`)), "more than 700"},
		{set(two), ""},
		{set(wide), "more than 2000, the most for a key of rule two@1d"},
		{candidate("a", `"100000/1m"`), ""},
		{set(late), "until is more than 30 days ahead"},
		{Edit{Entry: Entry{Kind: Candidate, Amendment: Amendment{Rule: "a", Limit: late.Limit, Until: late.Until}}}, "until is more than 30 days ahead"},
		{set(end), ""},
	} {
		_, after, err := new(Document).Change(f, c.edit.at(0))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", after, err, c.want)
		}
	}

	d := edited(t, set(one("a", "x", `"500/1m"`)))
	d = fatal.Get(Parse(fatal.Get(d.Encode())(t)))(t)
	lower := file(t, strings.Replace(text, "limit: 5/1m", "limit: 1/1m", 1))
	if all, problems := merged(lower, d); len(problems) > 0 || counts(all, "a", "x") != "500@2" {
		t.Errorf("%s, %v", counts(all, "a", "x"), problems)
	}
}

// Entries replace others of the same rule and key, end, and are removed; mistakes change nothing.
func TestEdit(t *testing.T) {
	d := edited(t, set(one("login", "x", `"1/1m"`)), set(one("login", "y", `"1/1m"`)), set(one("login", "x", `"2/1m"`)))
	if len(d.Entries) != 2 || string(d.Entries[1].Limit) != `"2/1m"` || d.Entries[1].Who != "ann" || !d.Entries[1].When.Equal(now.Add(2*time.Millisecond)) {
		t.Errorf("%+v", d)
	}
	short := one("login", "z", `"1/1m"`)
	short.Until = now.Add(90 * time.Minute)
	_, what, err := set(short).at(0).apply(d)
	if want := "override of login z: 1/1m until 2026-11-26T13:30:00Z"; err != nil || what != want {
		t.Errorf("%q, %v, want %q", what, err, want)
	}
	parts := one("login", "", `"2/1m"`)
	parts.Key = []string{"a b", `\x1b[1m`}
	if _, what, err = set(parts).at(0).apply(d); err != nil || !strings.HasPrefix(what, `override of login a b|\x1b[1m: 2/1m`) {
		t.Errorf("%q, %v", what, err)
	}
	if before, _, err := gone(one("login", `a b|\x1b[1m`, "")).at(0).apply(d); err != nil || before != what {
		t.Errorf("%q, %v: the whole key is not that of its parts", before, err)
	}
	d.Prune(short.Until.Add(-time.Second))
	if len(d.Entries) != 3 {
		t.Errorf("%d before it ends", len(d.Entries))
	}
	if d.Prune(short.Until); len(d.Entries) != 2 {
		t.Errorf("%d when it ends", len(d.Entries))
	}
	if was, what, err := gone(one("login", "x", "")).at(0).apply(d); err != nil || what != "override of login x removed" || !strings.HasPrefix(was, "override of login x: 2/1m until ") || len(d.Entries) != 1 {
		t.Errorf("%q, %q, %v", was, what, err)
	}
	past, noKey, both, noLimit := one("login", "x", `"1/1m"`), one("login", "x", `"1/1m"`), one("login", "x", `"1/1m"`), one("login", "x", ``)
	past.Until, noKey.Key, both.Hash, noLimit.Limit = now, nil, "00", nil
	long := one("login", "x", `"`+strings.Repeat("1", maxLimit)+`"`)
	for want, edit := range map[string]Edit{
		"until": set(past), "key, or hash": set(noKey), "write one of them": set(both), "limit, or limits": set(noLimit),
		"at most 1000": set(long), "no JSON": set(one("login", "x", `1/1m`)), "rule is missing": set(one("", "x", `1`)),
		"limits for a rule": Edit{Entry: Entry{Kind: Candidate, Amendment: Amendment{Rule: "x", Until: now.Add(time.Hour)}}}, "are for overrides": Edit{Entry: Entry{Kind: Candidate, Amendment: one("login", "x", `1`)}},
	} {
		if _, _, err := edit.at(0).apply(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, edit := range []Edit{gone(one("login", "x", "")), gone(Amendment{Rule: "login", Hash: "y"}), {Entry: Entry{Kind: Candidate, Amendment: Amendment{Rule: "login"}}, Remove: true}} {
		if _, _, err := edit.at(0).apply(d); !errors.Is(err, ErrNone) {
			t.Errorf("%v", err)
		}
	}
	if len(d.Entries) != 1 {
		t.Errorf("%+v", d)
	}
}

// A document has bounds, and what is unknown in it is an error.
func TestBounds(t *testing.T) {
	edits := make([]Edit, maxEntries+1)
	for i := range edits {
		edits[i] = set(one("login", fmt.Sprint(i), `"1/1m"`))
	}
	d := edited(t, edits...)
	if _, err := d.Encode(); err == nil || !strings.Contains(err.Error(), "1001 overrides") {
		t.Errorf("%v", err)
	}
	d.Entries = d.Entries[1:]
	text, err := d.Encode()
	if err != nil || len(text) > MaxBytes {
		t.Errorf("%d bytes (%v)", len(text), err)
	}
	d.Entries[0].Key = []string{strings.Repeat("x", MaxBytes)}
	if _, err := d.Encode(); err == nil {
		t.Error("more bytes than fit")
	}
	for _, text := range []string{"", "{", "[]", `{"rates":[]}`, `{"entries":[{"rule":"a","quota":1}]}`, `{"entries":[` + strings.Repeat("{},", maxEntries) + `{}]}`, strings.Repeat(" ", MaxBytes) + "{}"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
}
