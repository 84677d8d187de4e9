package describe

import (
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Example is a request that the rule counts or sheds. nil: none of [Examples] is, as with most regular expressions.
func Example(r *rule.Rule, seed uint64, now time.Time) *request.Request {
	own := *r
	if own.Keys = nil; own.Mode == rule.Off {
		own.Mode = rule.Shadow // whose requests are looked for
	}
	set := rule.NewSet([]rule.Rule{own}, nil, seed)
	for example := range Examples(r) {
		if Applies(set, r.Name, example, now) {
			return example
		}
	}
	return nil
}

// Applies reports whether the rule of a name counts, sheds or exempts a request, beside the other rules of its set.
func Applies(set *rule.Set, name string, to *request.Request, now time.Time) bool {
	var q rule.Request
	var found rule.Matches
	to.Fill(set.Inputs(), &q)
	q.Now, q.Secret = limit.Micros(now.UnixMicro()), new(rule.Secret) // any
	set.Match(&q, &found)
	is := func(i int) bool { return set.Rule(i).Name == name }
	return slices.ContainsFunc(found.Hits, func(h rule.Hit) bool { return is(h.Rule) }) ||
		slices.ContainsFunc(found.Sheds, func(h rule.ShedHit) bool { return is(h.Rule) }) || slices.ContainsFunc(found.Exempt, is)
}

// Examples are requests with a value for each condition of the rule and for each part of its key. Each alternative of a condition is
// in one of them. A rule for a percentage of the keys has a hundred keys.
func Examples(r *rule.Rule) iter.Seq[*request.Request] {
	return func(yield func(*request.Request) bool) {
		m, keys := &r.Match, 1
		if m.Percent.To > 0 {
			keys = 100
		}
		for turn := range max(1, len(m.Methods), len(m.Hosts), len(m.Regions), len(m.Clients), len(m.Paths)) {
			for n := range keys {
				if !yield(fulfilling(r, turn, n)) {
					return
				}
			}
		}
	}
}

// alternative is the one of a turn, or the last one; empty: there are none.
func alternative[T any](list []T, turn int) []T {
	end := min(turn+1, len(list))
	return list[max(end-1, 0):end]
}

// fulfilling is a request with the alternatives of a turn, and the key n of those that are tried.
func fulfilling(r *rule.Rule, turn, n int) *request.Request {
	q, m, stated := &request.Request{Path: "/"}, &r.Match, map[rule.Source]bool{}
	put := func(of rule.Source, value string) {
		of.IPv6Prefix = 0
		if !stated[of] && value != "" {
			set(q, of, value)
		}
		stated[of] = true
	}
	for _, method := range alternative(m.Methods, turn) {
		put(rule.Source{From: rule.FromMethod}, method)
	}
	for _, host := range alternative(m.Hosts, turn) {
		put(rule.Source{From: rule.FromHost}, strings.Replace(host, "*", "www", 1))
	}
	for _, region := range alternative(m.Regions, turn) {
		put(rule.Source{From: rule.FromRegion}, region)
	}
	for _, network := range alternative(m.Clients, turn) {
		first, _, _ := strings.Cut(network.String(), "/")
		put(rule.Source{TrustedHops: m.TrustedHops}, first)
	}
	for _, path := range alternative(m.Paths, turn) { // before queries
		put(rule.Source{From: rule.FromPath}, text(path))
	}
	for _, f := range m.Fields() {
		for _, named := range *f.List {
			put(rule.Source{From: f.From, Name: named.Name}, text(named.Text))
		}
	}
	for _, part := range r.Key {
		switch part[0].From {
		case rule.FromConst, rule.FromSegment, rule.FromPath, rule.FromMethod: // any request has it
		case rule.FromClientIP:
			put(part[0], fmt.Sprint("192.0.2.", n+1))
		default:
			put(part[0], fmt.Sprint("a", n+1))
		}
	}
	return q
}

var placeholder = regexp.MustCompile(`{[^/]*}`)

// text is one that fulfils a condition; empty: none does.
func text(t rule.Text) string {
	switch t.Op {
	case rule.OpPresent:
		return "a"
	case rule.OpPrefix:
		return t.Arg + "a"
	case rule.OpTemplate:
		return placeholder.ReplaceAllString(t.Arg, "a")
	}
	return t.Arg
}

// set gives a request a value of a source.
func set(q *request.Request, of rule.Source, value string) {
	named := func(in *map[string]string, name, value string) {
		if *in == nil {
			*in = map[string]string{}
		}
		(*in)[name] = value
	}
	switch of.From {
	case rule.FromMethod:
		q.Method = value
	case rule.FromHost:
		q.Host = value
	case rule.FromPath:
		q.Path = value
	case rule.FromQuery:
		q.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(q.Path, "?")] + url.QueryEscape(of.Name) + "=" + url.QueryEscape(value)
	case rule.FromHeader:
		named(&q.Headers, of.Name, value)
	case rule.FromCookie:
		named(&q.Headers, "cookie", strings.TrimPrefix(q.Headers["cookie"]+"; "+of.Name+"="+value, "; "))
	case rule.FromClaim:
		named(&q.Claims, of.Name, value)
	case rule.FromMetadata:
		named(&q.Metadata, of.Name, value)
	case rule.FromLabel:
		named(&q.Labels, of.Name, value)
	case rule.FromSAN:
		q.SAN = value
	case rule.FromRoute:
		q.Route = value
	case rule.FromRegion:
		q.Region = value
	case rule.FromClientIP:
		if q.Client = value; of.TrustedHops > 0 {
			named(&q.Headers, "x-forwarded-for", value+strings.Repeat(", 192.0.2.254", of.TrustedHops-1))
		}
	}
}
