//go:build linux

package edge

import (
	"net/http"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// envoy starts an Envoy that takes requests by this listener of the bootstrap.
func (b *bench) envoy(name, listener string, edit func(*envoy.Bootstrap)) *envoy.Envoy {
	e := envoy.New(b, envoy.Config{Dir: b.Dir, Name: name, Listener: listener, Workers: b.workers})
	e.Bootstrap.OnlyListener(listener)
	edit(e.Bootstrap)
	e.Start()
	return e
}

// pop starts an Envoy in front of the upstream.
func (b *bench) pop(name string, edit func(*envoy.Bootstrap)) *envoy.Envoy {
	return b.envoy(name, "pop", func(e *envoy.Bootstrap) {
		e.DropAccessLog()
		e.TrustClients()
		e.SetCluster("upstream", b.upstream.Addr)
		edit(e)
	})
}

// answerItself has an Envoy answer every request itself, without an upstream.
func answerItself(e *envoy.Bootstrap) {
	e.AddRoute(map[string]any{"match": map[string]any{"prefix": "/"},
		"direct_response": map[string]any{"status": answered}})
}

// alike starts a bare Envoy that answers itself, and the same with each filter and one rule.
func (b *bench) alike(name string) (bare *envoy.Envoy, filters []*filter) {
	bare = b.pop(name+"-bare", func(e *envoy.Bootstrap) { answerItself(e); e.SetFilter(nil) })
	filters = newFilters()
	for _, f := range filters {
		f.one = b.place(f.prefix+name, oneRule, "/one/thing", answerItself, f.edit)
	}
	return bare, filters
}

// filter is Weir as one of its two modules.
type filter struct {
	name, prefix string // in tables, and of files
	edit         func(*envoy.Bootstrap)
	one, three   *place // with so many rules per request
}

func newFilters() []*filter {
	return []*filter{
		{name: "Weir", edit: func(*envoy.Bootstrap) {}},
		{name: "Weir native", prefix: "native-", edit: (*envoy.Bootstrap).SetNative},
	}
}

// place is a PoP with a region of its own.
type place struct {
	pop    *envoy.Envoy
	region *region.Region
}

// place starts a region with its memory store and these rules, and a PoP that has got them: one of
// the rules applies to path. The bootstrap of the PoP may be edited.
func (b *bench) place(name, rules, path string, edits ...func(*envoy.Bootstrap)) *place {
	r := region.New(b, region.Config{Dir: b.Dir, Name: name + "-region", Rules: rules,
		Flags: []string{"--state", filepath.Join(b.Dir, name+".state")}})
	r.Start()
	pop := b.pop(name+"-pop", func(e *envoy.Bootstrap) {
		e.SetPlugin(map[string]any{"pop": name})
		e.SetCluster("weir_region", r.Addr)
		for _, edit := range edits {
			edit(e)
		}
	})
	proc.Eventually(b, 30*time.Second, "an answer of "+name+" to "+path+" names a rule in RateLimit-Policy", func() bool {
		resp, _, err := page.Get(b.Ctx, http.DefaultClient, "http://"+pop.Addr+path, "x-user-id", "probe")
		return err == nil && resp.Header.Get("RateLimit-Policy") != ""
	})
	return &place{pop, r}
}
