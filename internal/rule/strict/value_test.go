package strict

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestValue reads a document that is wrong everywhere.
func TestValue(t *testing.T) {
	n := fatal.Get(ParseJSON(golden.Content(t, "testdata/wrong.json")))(t)
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

	golden.Same(t, "testdata/wrong.golden", errs.Error()+"\n")
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
	for text, want := range map[string]string{"a\n": `"a\n"`, strings.Repeat("é", 100): `"` + strings.Repeat("é", 30) + `"...`} {
		if got := Quote(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
