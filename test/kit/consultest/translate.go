package consultest

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
)

// Translate returns an address at which the agent answers, too, with other addresses in place of some
// of those that the catalog has: as between datacenters whose network translates addresses.
func (a *Agent) Translate(addresses map[string]string) (addr string) {
	a.t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: a.scheme, Host: a.Addr})
			r.Out.Header.Del("Accept-Encoding") // so that the answer can be read
		},
		Transport:      a.client.Transport,
		ErrorLog:       log.New(io.Discard, "", 0), // agents end
		ModifyResponse: func(resp *http.Response) error { return translate(resp, addresses) },
	})
	a.t.Cleanup(server.Close)
	a.t.Cleanup(server.CloseClientConnections) // first: what is blocking is not over soon
	return server.Listener.Addr().String()
}

// translate changes the answer to a question for instances.
func translate(resp *http.Response, addresses map[string]string) error {
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Request.URL.Path, "/v1/health/service/") {
		return nil
	}
	var entries []map[string]any
	in := json.NewDecoder(resp.Body)
	in.UseNumber()
	if err := in.Decode(&entries); err != nil {
		return err
	}
	for _, e := range entries {
		service, _ := e["Service"].(map[string]any)
		host, _ := service["Address"].(string)
		port, _ := service["Port"].(json.Number)
		to, found := addresses[net.JoinHostPort(host, port.String())]
		if !found {
			continue
		}
		newHost, newPort, err := net.SplitHostPort(to)
		if err != nil {
			return err
		}
		service["Address"], service["Port"] = newHost, json.Number(newPort)
	}
	body, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	resp.ContentLength = int64(len(body))
	return nil
}
