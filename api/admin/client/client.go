// Package client calls the admin API at an address, or in a context: an installation with its address, token and
// certificates in a file of the user.
//
//	client.go    calls
//	events.go    a stream of events
//	contexts.go  the file
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/certs"
)

// maxAnswer bounds an answer, in bytes: 8 MiB of rules, each byte of which may be escaped.
const maxAnswer = 64 << 20

// Client calls one installation. It is safe for concurrent use.
type Client struct {
	at    Context
	base  string
	token string // empty: none
	http  *http.Client
}

// Open makes a client of a context; an empty name is the current one. Where an address, host:port, is given, it is of
// that, without a token and without TLS.
func Open(name, address string) (*Client, error) {
	if address != "" {
		if _, _, err := net.SplitHostPort(address); err != nil || strings.Contains(address, "/") {
			return nil, fmt.Errorf("the address %q must be HOST:PORT, such as 127.0.0.1:8090", address)
		}
		return of(Context{Name: address, URL: "http://" + address})
	}
	f, err := Load()
	if err != nil {
		return nil, err
	}
	c, err := f.Find(name)
	if err != nil {
		return nil, err
	}
	return of(c)
}

func of(c Context) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("context %s: url must be https://HOST:PORT, or http:// for this machine", c.Name)
	}
	token := ""
	if c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("context %s: %w", c.Name, err)
		}
		token = strings.TrimSpace(string(text))
	}
	if ip := net.ParseIP(u.Hostname()); token != "" && u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("context %s: its token would be sent to %s without TLS; write https://", c.Name, u.Host)
	}
	secure, err := certs.Load("context "+c.Name, certs.Files{Cert: c.Cert, Key: c.Key, CA: c.CA}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &Client{
		at: c, base: strings.TrimSuffix(c.URL, "/"), token: token,
		http: &http.Client{
			Transport:     &http.Transport{TLSClientConfig: secure.Client("")(), ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token is for one server
		},
	}, nil
}

// Call is one call of an operation.
type Call struct {
	Method  string // empty: GET
	Path    string // such as /v1/rules, with its query
	IfMatch string // ETag; empty: none
	Body    any    // is sent as JSON; nil: none
}

// Do makes a call and reads the answer into a value; nil: it is not read. It returns the answer's ETag. The error is a
// [v1.Problem] if the API answers with one.
func (c *Client) Do(ctx context.Context, call Call, into any) (etag string, err error) {
	answer, err := c.Send(ctx, call)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if into != nil {
		err = json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: the answer cannot be read: %w", c.at.Name, call.Path, err)
	}
	return answer.Header.Get("ETag"), err
}

// Send makes a call whose answer the caller reads and closes.
func (c *Client) Send(ctx context.Context, call Call) (*http.Response, error) {
	var body bytes.Buffer
	if call.Body != nil {
		out := json.NewEncoder(&body)
		out.SetEscapeHTML(false)
		if err := out.Encode(call.Body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, c.base+call.Path, &body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if call.IfMatch != "" {
		request.Header.Set("If-Match", call.IfMatch)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", c.at.Name, errors.Unwrap(err)) // without the URL
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	p := new(v1.Problem)
	if json.Unmarshal(text, p) != nil || p.Detail == "" {
		line, _, _ := strings.Cut(strings.TrimSpace(string(text[:min(len(text), 200)])), "\n")
		p = v1.NewProblem(answer.StatusCode, "", fmt.Sprintf("%s %s: %s: %s; is that the admin port of a program that has this?", cmp.Or(call.Method, http.MethodGet), call.Path, answer.Status, strings.TrimRight(line, ".")))
	}
	return nil, fmt.Errorf("%s: %w", c.at.Name, p)
}
