package lint

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
)

// clientHeaders are set by every client as it likes, or claim what only a trusted proxy knows.
var clientHeaders = []string{"accept", "accept-language", "cf-connecting-ip", "fastly-client-ip", "forwarded", "origin", "referer",
	"true-client-ip", "user-agent", "x-client-ip", "x-forwarded-for", "x-real-ip", "x-request-id"}

// key checks where the parts of the key come from.
func (l *linter) key() {
	for i, part := range l.rule.Key {
		field := fmt.Sprintf("key[%d]", i)
		for _, s := range part {
			if s.From == rule.FromHeader && slices.Contains(clientHeaders, s.Name) {
				l.warn(ClientHeader, field, "every client can send another %s with each request and has no limit then; write client_ip (trusted_hops for proxies), or a header that Envoy sets", s.Name)
			}
		}
		if last := part[len(part)-1]; canLack(last.From) {
			l.warn(KeyWithoutElse, field, "a request without this %s is not limited at all; write { %s: %s, else: client_ip }", last.From, last.From, last.Name)
		}
	}
}

// canLack reports whether a client can send a request that does not have the source.
func canLack(from rule.From) bool {
	return from == rule.FromHeader || from == rule.FromQuery
}

// match checks whom the rule is for.
func (l *linter) match(regions rule.Regions) {
	for _, h := range l.rule.Match.Headers {
		l.clientHeader("match.header."+h.Name, h.Name)
	}
}

func (l *linter) clientHeader(field, name string) {
	if slices.Contains(clientHeaders, name) {
		l.warn(ClientHeader, field, "every client chooses its %s and with it whether this applies; write a header that Envoy sets", name)
	}
}

// overrides checks the overrides by attribute.
func (l *linter) overrides() {
	limits := l.rule.Limits
	for i := 1; i < len(limits); i++ {
		for _, h := range limits[i].When.Headers {
			l.clientHeader(override(i)+".when.header."+h.Name, h.Name)
		}
		for j := 1; j < i; j++ {
			if covers(&limits[j].When, &limits[i].When) {
				l.warn(OverrideUnreachable, override(i), "is never used: override %d holds for all of these requests and comes first; put this one before it", j)
				break
			}
		}
	}
}

// override is where the override i, from 1, stands.
func override(i int) string { return fmt.Sprintf("overrides[%d]", i-1) }

// covers reports whether a holds wherever b does; false where that is not plain to see, as with two expressions.
func covers(a, b *rule.Match) bool {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		of, in := x.Field(i), y.Field(i)
		switch {
		case of.Kind() != reflect.Slice:
			if !of.IsZero() && !of.Equal(in) {
				return false
			}
		case all[x.Type().Field(i).Name]:
			if !within(of, in) {
				return false
			}
		case of.Len() > 0 && (in.Len() == 0 || !within(in, of)):
			return false
		}
	}
	return true
}

// all are the fields of a match of which every item must hold; of the others one is enough.
var all = map[string]bool{"Headers": true, "Queries": true, "Cookies": true, "Claims": true, "Labels": true, "Not": true}

// within reports whether each item of a list is in another one.
func within(list, in reflect.Value) bool {
	for i := range list.Len() {
		found := false
		for j := range in.Len() {
			found = found || reflect.DeepEqual(list.Index(i).Interface(), in.Index(j).Interface())
		}
		if !found {
			return false
		}
	}
	return true
}

// same checks that the rule does not count the requests of another one once more.
func (l *linter) same(before []*rule.Rule) {
	base, _, _ := strings.Cut(l.rule.Name, "@")
	for _, other := range before {
		name, _, _ := strings.Cut(other.Name, "@")
		if name == base || other.Mode != l.rule.Mode || other.Scope != l.rule.Scope ||
			!reflect.DeepEqual(other.Match, l.rule.Match) || !reflect.DeepEqual(other.Key, l.rule.Key) {
			continue
		}
		remedy := "the smaller limit decides alone; leave one rule out"
		if other.Limits[0].Limit.Period != l.rule.Limits[0].Limit.Period {
			remedy = "one rule with limits: [5/1m, 20/1d] does the same"
		}
		l.warn(SameMatchAndKey, "name", "%s has the same match and key: %s", name, remedy)
		return
	}
}
