//go:build linux

package rig

import (
	"net/http"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// Upstream starts what the others send their requests on to: the shipped
// bootstrap's own upstream, which answers 200 to everything.
func (r *Rig) Upstream() (*envoy.Envoy, error) {
	return r.envoy("upstream", "demo_upstream", func(*envoy.Bootstrap) {})
}

// Bare starts an Envoy with no filter but the router.
func (r *Rig) Bare(name string, upstream *envoy.Envoy) (*envoy.Envoy, error) {
	return r.pop(name, upstream, func(b *envoy.Bootstrap) { b.SetFilter(nil) })
}

// Native starts an Envoy with the local rate limiting that is built into it, of
// perSecond requests; see [envoy.Bootstrap.SetLocalRateLimit].
func (r *Rig) Native(name string, upstream *envoy.Envoy, perSecond int) (*envoy.Envoy, error) {
	return r.pop(name, upstream, func(b *envoy.Bootstrap) { b.SetLocalRateLimit(perSecond) })
}

// Weir starts an Envoy with the filter, and waits until it has the rules of
// a region: until one applies to path.
func (r *Rig) Weir(name string, upstream *envoy.Envoy, g *region.Region, path string) (e *envoy.Envoy, err error) {
	e, err = r.pop(name, upstream, func(b *envoy.Bootstrap) {
		b.SetPlugin(map[string]any{"pop": name})
		b.SetCluster("weir_region", g.Addr)
	})
	if err != nil {
		return nil, err
	}
	defer proc.Recover(&err)
	proc.Eventually(r, 30*time.Second, "an answer of "+name+" to "+path+" names a rule in RateLimit-Policy", func() bool {
		resp, _, err := page.Get(r.Ctx, http.DefaultClient, "http://"+e.Addr+path, "x-user-id", "probe")
		return err == nil && resp.Header.Get("RateLimit-Policy") != ""
	})
	return e, nil
}

func (r *Rig) pop(name string, upstream *envoy.Envoy, edit func(*envoy.Bootstrap)) (*envoy.Envoy, error) {
	return r.envoy(name, "pop", func(b *envoy.Bootstrap) {
		b.DropAccessLog()
		b.TrustClients()
		b.SetCluster("upstream", upstream.Addr)
		edit(b)
	})
}

func (r *Rig) envoy(name, listener string, edit func(*envoy.Bootstrap)) (e *envoy.Envoy, err error) {
	defer proc.Recover(&err)
	e = envoy.New(r, envoy.Config{Dir: r.Dir, Name: name, Listener: listener, Workers: 1})
	e.Bootstrap.OnlyListener(listener)
	edit(e.Bootstrap)
	e.Start()
	r.Count(e.Process)
	return e, nil
}
