// Package request turns requests in the form of people and access logs into the form that rules read.
package request

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
)

// Request is a request as somebody states it. The zero value of a field means that the request does not have it; without
// Method it is a GET.
type Request struct {
	Method string `json:"method,omitempty"`
	Host   string `json:"host,omitempty"` // with its port; empty: that of the header host
	Path   string `json:"path"`           // and the query, as Envoy has it in :path
	// Headers by their names, in any case. The values of one that is sent several times are joined by a comma.
	Headers map[string]string `json:"headers,omitempty"`
	// Client is the address of the peer, as Envoy sees it.
	Client string `json:"client,omitempty"`
	// Claims of its token, by their dotted paths.
	Claims map[string]string `json:"claims,omitempty"`
	// Metadata are values of dynamic metadata, by NAMESPACE:KEY.
	Metadata map[string]string `json:"metadata,omitempty"`
	// SAN is the name in the client's certificate, and Route that of Envoy's route.
	SAN   string `json:"san,omitempty"`
	Route string `json:"route,omitempty"`
	// Region and Labels are those of the PoP. Without either it is whichever the caller has set.
	Region string            `json:"region,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Locate sets host and path to those of https://host/path?query, or of a path and a query alone, which it takes as they are.
func (r *Request) Locate(text string) error {
	if strings.HasPrefix(text, "/") {
		r.Host, r.Path = "", text
		return nil
	}
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
	for i, s := range in.Metadata {
		text, ok := r.Claims[s.Name]
		if s.From == rule.FromMetadata {
			text, ok = r.Metadata[s.Name]
		}
		q.Metadata[i] = rule.Value{Text: text, Present: ok}
	}
	q.Peer, q.SAN, q.Route = r.Client, r.SAN, r.Route
	if r.Region != "" || len(r.Labels) > 0 {
		q.PoP = &rule.PoP{Region: r.Region, Labels: r.Labels}
	}
}

// String is the request as arguments of weir explain, for a shell.
func (r *Request) String() string {
	url := r.Path
	if r.Host != "" {
		url = "https://" + r.Host + r.Path
	}
	out := quoted(url)
	add := func(flag, value string) {
		if value != "" {
			out += " " + flag + " " + quoted(value)
		}
	}
	each := func(flag, between string, values map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			add(flag, strings.TrimSpace(name+between+values[name]))
		}
	}
	if r.Method != "GET" {
		add("-X", r.Method)
	}
	each("-H", ": ", r.Headers)
	add("--client", r.Client)
	each("--claim", "=", r.Claims)
	each("--metadata", "=", r.Metadata)
	add("--san", r.SAN)
	add("--route", r.Route)
	add("--region", r.Region)
	each("--label", "=", r.Labels)
	return out
}

// quoted is a word for a shell.
func quoted(word string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@%+,="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
