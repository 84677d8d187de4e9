// Package request has requests as people and access logs state them, and makes of them what rules see.
package request

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
)

// Request is a request as somebody states it. The zero value of a field means that the request does not have it; without
// Method it is a GET.
type Request struct {
	Method string
	Host   string // with its port; empty: that of the header host
	Path   string // and the query, as Envoy has it in :path
	// Headers by their names, in any case. The values of one that is sent several times are joined by a comma.
	Headers map[string]string
	// Client is the address of the peer, as Envoy sees it.
	Client string
	// Claims of its token, by their dotted paths.
	Claims map[string]string
	// SAN is the name in the client's certificate, and Route that of Envoy's route.
	SAN, Route string
}

// Locate sets host and path to those of https://host/path?query, or of a path and a query alone.
func (r *Request) Locate(text string) error {
	target, err := url.Parse(text)
	if err == nil && !strings.HasPrefix(target.RequestURI(), "/") {
		err = errors.New("must be http://HOST/PATH, or a path that begins with /")
	}
	if err != nil {
		return errors.New("url: " + err.Error())
	}
	r.Host, r.Path = target.Host, target.RequestURI()
	return nil
}

// Check returns what is wrong with a request, behind the name of the field.
func (r *Request) Check() error {
	if r.Client != "" && !ip.Parse(r.Client).Valid() {
		return errors.New("client: must be an IP address, such as 192.0.2.1")
	}
	return nil
}

// Fill makes q the request, for rules with these inputs, as a PoP does. What is the same for all requests of a PoP, the time
// and the secret are left as they are after [rule.Request.Reset].
func (r *Request) Fill(in *rule.Inputs, q *rule.Request) {
	q.Reset(in)
	for name, value := range r.Headers {
		if name = strings.ToLower(name); name == "host" {
			name = ":authority"
		}
		q.Add(in, name, value)
	}
	q.Method, q.Host, q.Path = cmp.Or(r.Method, "GET"), cmp.Or(r.Host, q.Host), r.Path
	for i, name := range in.Claims {
		text, ok := r.Claims[name]
		q.Claims[i] = rule.Value{Text: text, Present: ok}
	}
	q.Peer, q.SAN, q.Route = r.Client, r.SAN, r.Route
}
