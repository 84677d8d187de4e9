//go:build linux

package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Envoy is one Envoy with one worker thread.
type Envoy struct {
	Addr string // where it takes requests
	*Process
	admin string
}

// Metrics reads its counters and gauges.
func (e *Envoy) Metrics(ctx context.Context) (measure.Metrics, error) {
	return measure.Scrape(ctx, "http://"+e.admin+"/stats/prometheus")
}

// Upstream starts what the others send their requests on to: the shipped
// bootstrap's own upstream, which says 200 to everything.
func (r *Rig) Upstream(ctx context.Context) (*Envoy, error) {
	return r.startEnvoy(ctx, "upstream", func(b *bootstrap, addr string) {
		b.onlyListener("demo_upstream", addr)
	})
}

// Bare starts an Envoy with no filter but the router.
func (r *Rig) Bare(ctx context.Context, name string, upstream *Envoy) (*Envoy, error) {
	return r.pop(ctx, name, upstream, func(b *bootstrap) { b.setFilter(nil) })
}

// Native starts an Envoy with the local rate limiting that is built into it: one
// bucket for all requests, of perSecond tokens that refill each second; 0 admits
// one request per day.
func (r *Rig) Native(ctx context.Context, name string, upstream *Envoy, perSecond int) (*Envoy, error) {
	bucket := object{"max_tokens": perSecond, "tokens_per_fill": perSecond, "fill_interval": "1s"}
	if perSecond == 0 {
		bucket = object{"max_tokens": 1, "tokens_per_fill": 1, "fill_interval": "86400s"}
	}
	always := object{"default_value": object{"numerator": 100, "denominator": "HUNDRED"}}
	return r.pop(ctx, name, upstream, func(b *bootstrap) {
		b.setFilter(object{
			"name": "envoy.filters.http.local_ratelimit",
			"typed_config": object{
				"@type":           "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
				"stat_prefix":     "native",
				"token_bucket":    bucket,
				"filter_enabled":  always,
				"filter_enforced": always,
			},
		})
	})
}

// Weir starts an Envoy with the filter, and waits until it has the rules of
// region: until one applies to path.
func (r *Rig) Weir(ctx context.Context, name string, upstream *Envoy, region *Region, path string) (*Envoy, error) {
	module, err := r.built("weir.wasm")
	if err != nil {
		return nil, err
	}
	e, err := r.pop(ctx, name, upstream, func(b *bootstrap) {
		b.setPlugin(module, object{"pop": name})
		b.setCluster("weir_region", region.Addr)
	})
	if err != nil {
		return nil, err
	}
	return e, e.awaitRules(ctx, path)
}

// awaitRules asks for path until the answer says which rule applied to it.
func (e *Envoy) awaitRules(ctx context.Context, path string) error {
	for range 100 {
		ok, header := get(ctx, "http://"+e.Addr+path)
		if ok && header.Get("RateLimit-Policy") != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: no answer to %s names a rule in RateLimit-Policy; its log is %s", e.Name, path, e.log)
}

func (r *Rig) pop(ctx context.Context, name string, upstream *Envoy, edit func(*bootstrap)) (*Envoy, error) {
	return r.startEnvoy(ctx, name, func(b *bootstrap, addr string) {
		b.onlyListener("pop", addr)
		b.dropAccessLog()
		b.trustClients()
		b.setCluster("upstream", upstream.Addr)
		edit(b)
	})
}

// program is the Envoy that WEIR_ENVOY names, else what `make setup` installs.
func (r *Rig) program() (string, error) {
	path := os.Getenv("WEIR_ENVOY")
	if path == "" {
		path = filepath.Join(r.root, ".tools/venv/bin/envoy")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no Envoy: %w; run `make setup`, or name one in WEIR_ENVOY", err)
	}
	return path, nil
}

func (r *Rig) startEnvoy(ctx context.Context, name string, edit func(b *bootstrap, addr string)) (*Envoy, error) {
	program, err := r.program()
	if err != nil {
		return nil, err
	}
	b, err := readBootstrap(filepath.Join(r.root, "envoy/pop.yaml"))
	if err != nil {
		return nil, err
	}
	e := &Envoy{Addr: r.addr(), admin: r.addr()}
	b.setAdmin(e.admin)
	edit(b, e.Addr)
	text, err := b.json()
	if err != nil {
		return nil, err
	}
	path, err := r.write(name+".json", text)
	if err != nil {
		return nil, err
	}
	e.Process, err = r.start(ctx, name, "http://"+e.admin+"/ready", program, "-c", path,
		"--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}
