package strict

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestValue reads a document that is wrong everywhere.
func TestValue(t *testing.T) {
	n := fatal.Get(ParseJSON([]byte(`{
  "string": 1,
  "int": "many",
  "high": 11,
  "huge": 99999999999999999999,
  "float": 1.5,
  "bool": "yes",
  "word": "gren",
  "list": {},
  "long": [1, 2, 3],
  "null": null,
  "objekt": {},
  "inner": {"a.b": [{}, {"x": true}]}
}`)))(t)
	var errs Errors
	v := Root(n, &errs)
	v.Object("string", "int", "high", "huge", "float", "bool", "word", "list", "long", "null", "object", "inner", "gone")
	v.Field("string").String("a name")
	v.Field("int").Int(1, 10)
	v.Field("high").Int(1, 10)
	v.Field("huge").Int(1, 10)
	v.Field("float").Int(1, 10)
	v.Field("bool").Bool()
	v.Field("word").Enum("red", "green")
	v.Field("word").OneOf("add it, or ", strings.Fields(strings.Repeat("red ", 51)))
	v.Field("list").List(2, "a list of names")
	v.Field("long").List(2, "a list of names")
	v.Field("null").Int(1, 10)
	v.Field("gone").Require("a name")
	v.Field("gone").Field("below").Int(1, 10) // absent all the way down
	x := v.Field("inner").Field("a.b").List(2, "")[1].Field("x")
	x.Int(1, 10)
	v.Field("inner").FailAt(`["a.b"][1].x.y`, "is deeper than the document")

	got := errs.Error()
	for _, line := range []string{
		`12:3: objekt: unknown field; did you mean object?`,
		`2:13: string: 1 is a whole number; write it in quotes: "1"`,
		`3:10: int: "many" is a string; write a whole number from 1 to 10`,
		`4:11: high: 11 is out of range; write a whole number from 1 to 10`,
		`5:11: huge: 99999999999999999999 is out of range; write a whole number from 1 to 10`,
		`6:12: float: 1.5 is a number; write a whole number from 1 to 10`,
		`7:11: bool: "yes" is a string; write true or false`,
		`8:11: word: "gren" is unknown; write red or green (did you mean green?)`,
		`8:11: word: "gren" is unknown; add it, or write ` + strings.Repeat("red, ", 49) + "red ...",
		`9:3: list: is a mapping; write a list of names`,
		`10:3: long: has 3 items; write at most 2`,
		`11:11: null: has no value; write a whole number from 1 to 10`,
		`1:1: gone: is missing; write a name`,
		`13:31: inner["a.b"][1].x: true is a boolean; write a whole number from 1 to 10`,
		`13:31: inner["a.b"][1].x.y: is deeper than the document`,
	} {
		before, after, ok := strings.Cut(got, line)
		if !ok || strings.TrimSuffix(before, "\n") == before && before != "" {
			t.Fatalf("no line\n%s\nin\n%s", line, got)
		}
		got = before + strings.TrimPrefix(after, "\n")
	}
	if got != "" {
		t.Errorf("unexpected:\n%s", got)
	}
	for _, test := range []struct {
		v    Value
		path string
		ok   bool
	}{{x, `inner["a.b"][1].x`, false}, {v, "", false}, {v.Field("inner"), "inner", false}, {v.Field("inner").Field("a.b").List(2, "")[0], `inner["a.b"][0]`, true}} {
		if test.v.Path() != test.path || test.v.Ok() != test.ok {
			t.Errorf("path %q, ok %v: want %q, %v", test.v.Path(), test.v.Ok(), test.path, test.ok)
		}
	}
}

func TestValueReads(t *testing.T) {
	n := fatal.Get(ParseJSON([]byte(`{"s":"x","i":-5,"b":true,"e":"two","l":[1],"m":{"z":1,"a":2}}`)))(t)
	var errs Errors
	v := Root(n, &errs)
	s, ok1 := v.Field("s").String("")
	i, ok2 := v.Field("i").Int(-5, -5)
	b, ok3 := v.Field("b").Bool()
	e, ok4 := v.Field("e").Enum("one", "two")
	names := strings.Join(v.Field("m").Names(), " ")
	if !ok1 || !ok2 || !ok3 || !ok4 || s != "x" || i != -5 || !b || e != 1 || len(v.Field("l").List(1, "")) != 1 || names != "z a" {
		t.Errorf("%q %d %v %d %q", s, i, b, e, names)
	}
	if _, ok := v.Field("none").Int(0, 1); ok || v.Field("none").Present() || errs.Err() != nil {
		t.Errorf("an absent field reads as something: %v", errs)
	}
}

// TestErrorsAreBounded: a broken document of any size has a report that can be read.
func TestErrorsAreBounded(t *testing.T) {
	n := fatal.Get(ParseJSON([]byte(`[` + strings.Repeat(`1,`, 999) + `1]`)))(t)
	var errs Errors
	for _, v := range Root(n, &errs).List(1000, "") {
		v.Bool()
	}
	if len(errs) != maxErrors+1 || errs[maxErrors].Reason != "there are more like these 100" {
		t.Errorf("%d errors, the last %v", len(errs), errs[len(errs)-1])
	}
}

func TestNearest(t *testing.T) {
	names := []string{"name", "limit", "algorithm", "on_failure"}
	for got, want := range map[string]string{
		"nmae": "name", "Limit": "limit", "limits": "limit", "algoritm": "algorithm", "on-failure": "on_failure",
		"x": "", "": "", "failure": "", "timeout": "", strings.Repeat("limit", 20): "",
	} {
		if near := Nearest(got, names); near != want {
			t.Errorf("%q: %q, want %q", got, near, want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got := Quote(strings.Repeat("é", 100)); got != `"`+strings.Repeat("é", 30)+`"...` {
		t.Errorf("got %s", got)
	}
	if got := Quote("a\n"); got != `"a\n"` {
		t.Errorf("got %s", got)
	}
}
