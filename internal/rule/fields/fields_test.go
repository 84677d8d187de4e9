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
