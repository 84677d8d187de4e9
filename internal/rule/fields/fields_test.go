package fields_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/fields"
)

// FuzzQuery holds the query decoder to net/url where that takes the query at all.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"id=7", "a=1&id=%7c", "id=a+b", "i%64=1", "id", "=x", "&&id=1", "id=%zz", "id=1;2"} {
		f.Add(s, "id")
	}
	f.Fuzz(func(t *testing.T, query, name string) {
		got, found := fields.AppendQuery(nil, "/?"+query, name)
		values, err := url.ParseQuery(query)
		if err != nil || strings.ContainsAny(query, "#") || name == "" {
			return
		}
		if want := strings.Join(values[name], ","); string(got) != want || found != (len(values[name]) > 0) {
			t.Errorf("got %q, %v, want %q", got, found, want)
		}
	})
}

// FuzzCookie holds the cookie parser to one that splits first.
func FuzzCookie(f *testing.F) {
	for _, s := range []string{"a=1", "a=1; b=2", "b=2;a=1;", "a=1; a=2", "a", "=1", "a=b=c", `a="x y"`, " a = 1 ", "a=1,b=2", "A=1", ";;", "a=\t1"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, header, name string) {
		if name == "" || strings.ContainsAny(header, "\r\n\v\f\u0085\u00a0") { // white space that no header has
			return
		}
		got, found := fields.AppendCookie(nil, fields.AppendCookies(nil, header), name)
		var want []string
		for _, pair := range strings.Split(header, ";") {
			if key, value, _ := strings.Cut(pair, "="); pair != "" && strings.Trim(key, " \t") == name {
				want = append(want, strings.Trim(value, " \t"))
			}
		}
		if string(got) != strings.Join(want, ",") || found != (want != nil) {
			t.Errorf("%q in %q is %q, %v, want %q", name, header, got, found, want)
		}
	})
}
