//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Region is one weir-regional.
type Region struct {
	Addr string // QuotaService
	RLS  string // Envoy's rate limit service; empty: it has none
	*Process
	admin string
}

// Region starts a region with its memory store that enforces rules, a rule file's
// text.
func (r *Rig) Region(ctx context.Context, name, rules string) (*Region, error) {
	path, err := r.write(name+".rules.yaml", rules)
	if err != nil {
		return nil, err
	}
	return r.region(ctx, name, &Region{}, "--rules", path, "--state", filepath.Join(r.dir, name+".state"))
}

// Replica starts a region on Redis, which enforces rules, a rule file's text, and
// serves limits, the configuration of Envoy's rate limit service.
func (r *Rig) Replica(ctx context.Context, name string, redis []string, rules, limits string) (*Region, error) {
	path, err := r.write(name+".rules.yaml", rules)
	if err != nil {
		return nil, err
	}
	dir, err := r.limits(name, limits)
	if err != nil {
		return nil, err
	}
	g := &Region{RLS: r.addr()}
	return r.region(ctx, name, g, "--rules", path, "--pprof", "--redis", strings.Join(redis, ","),
		"--ratelimit-config", dir, "--rls-listen", g.RLS)
}

func (r *Rig) region(ctx context.Context, name string, g *Region, flags ...string) (*Region, error) {
	bin, err := r.built("weir-regional")
	if err != nil {
		return nil, err
	}
	g.Addr, g.admin = r.addr(), r.addr()
	argv := append([]string{bin, "--listen", g.Addr, "--admin-listen", g.admin}, flags...)
	g.Process, err = r.start(ctx, name, "http://"+g.admin+"/readyz", argv...)
	return g, err
}

// limits writes a directory with a configuration of Envoy's rate limit service.
func (r *Rig) limits(name, text string) (dir string, err error) {
	dir = filepath.Join(r.dir, name+".limits", "config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(text), 0o644)
}

// Metrics reads its counters and gauges.
func (g *Region) Metrics(ctx context.Context) (measure.Metrics, error) {
	return measure.Scrape(ctx, "http://"+g.admin+"/metrics")
}

// Profile is its CPU profile over some seconds from now on, as pprof writes it.
func (g *Region) Profile(ctx context.Context, seconds int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+10*time.Second)
	defer cancel()
	return fetch(ctx, "http://"+g.admin+"/debug/pprof/profile?seconds="+strconv.Itoa(seconds))
}

// fetch is what a URL answers.
func fetch(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return body, nil
}
