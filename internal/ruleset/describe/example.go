package describe

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Example is a request that the rule counts or sheds: with the first alternative of each condition, and a value for each part of
// its key. nil: that does not do, as with most regular expressions. A rule for a percentage of the keys takes some tries.
func Example(r *rule.Rule, seed uint64, now time.Time) *request.Request {
	own := *r
	if own.Keys = nil; own.Mode == rule.Off {
		own.Mode = rule.Shadow // whose requests are looked for
	}
	set := rule.NewSet([]rule.Rule{own}, nil, seed)
	for n := range 100 {
		var q rule.Request
		var found rule.Matches
		example := fulfilling(r, n)
		example.Fill(set.Inputs(), &q)
		q.Now, q.Secret = limit.Micros(now.UnixMicro()), new(rule.Secret)
		if set.Match(&q, &found); len(found.Hits)+len(found.Sheds) > 0 {
			return example
		}
	}
	return nil
}

// fulfilling is a request with the key n of those that are tried.
func fulfilling(r *rule.Rule, n int) *request.Request {
	q, m, stated := &request.Request{Path: "/"}, &r.Match, map[rule.Source]bool{}
	put := func(of rule.Source, value string) {
		of.IPv6Prefix = 0
		if !stated[of] && value != "" {
			set(q, of, value)
		}
		stated[of] = true
	}
	for _, method := range m.Methods {
		put(rule.Source{From: rule.FromMethod}, method)
	}
	for _, host := range m.Hosts {
		put(rule.Source{From: rule.FromHost}, strings.Replace(host, "*", "www", 1))
	}
	for _, region := range m.Regions {
		put(rule.Source{From: rule.FromRegion}, region)
	}
	for _, network := range m.Clients {
		first, _, _ := strings.Cut(network.String(), "/")
		put(rule.Source{TrustedHops: m.TrustedHops}, first)
	}
	for _, path := range m.Paths { // before queries
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
