package stack

import (
	"cmp"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// PoP is one Envoy with the filter.
type PoP struct {
	// Link is the network between this PoP and its region; nil without Config.Links.
	Link *Link
	*envoy.Envoy

	t testing.TB
}

// newPoP prepares a PoP whose region and upstream, unless "", are at these addresses.
func newPoP(t testing.TB, cfg Config, dir, name, region, upstream string) *PoP {
	t.Helper()
	p := &PoP{t: t}
	p.Envoy = envoy.New(t, envoy.Config{Dir: dir, Name: name, Listener: "pop",
		Workers: cmp.Or(cfg.Workers, 2), HotRestart: cfg.HotRestart})
	if cfg.Links {
		p.Link = NewLink(t, region)
		region = p.Link.Addr
	}
	b := p.Bootstrap
	b.SetNode(name)
	demo := proc.FreeAddr(t)
	b.SetListener("demo_upstream", demo)
	b.SetCluster("upstream", demo)
	if upstream != "" {
		b.SetCluster("upstream", upstream)
	}
	b.SetCluster("weir_region", region)
	b.SetAccessLog(os.DevNull)
	if !cfg.Strangers {
		b.TrustClients()
	}
	b.SetPlugin(map[string]any{"pop": name})
	b.SetPlugin(cfg.Plugin)
	if cfg.Bootstrap != nil {
		cfg.Bootstrap(b)
	}
	return p
}

// Response is what a client of a PoP got.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Get asks the PoP once, on a connection of its own. Headers come in pairs of
// name and value; a header may come twice.
func (p *PoP) Get(path string, headers ...string) Response {
	p.t.Helper()
	r, err := Do(p.Addr, http.MethodGet, path, "", headers...)
	if err != nil {
		p.t.Fatalf("%s: GET %s: %v", p.Name, path, err)
	}
	return r
}

// Do makes one request on a connection of its own.
func Do(addr, method, path, body string, headers ...string) (Response, error) {
	req, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	req.Close = true
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, text, err := page.Do(&client, req)
	if err != nil {
		return Response{}, err
	}
	return Response{resp.StatusCode, resp.Header, string(text)}, nil
}
