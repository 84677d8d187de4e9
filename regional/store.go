package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/front"
	"github.com/weirlimit/weir/internal/limiter/memory"
	"github.com/weirlimit/weir/internal/redisstore"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/regional/config"
)

// counting is the store that the configuration names, and what goes with it.
type counting struct {
	limiter.Store
	fall     limiter.Fallback                        // nil: nothing is remembered of a failing store
	cache    *front.Store                            // nil: no lease cache
	replicas func() int                              // live ones, as far as is known
	census   func() int                              // holders of all replicas; nil: this one has all
	counts   func(live func(time.Duration) []uint64) // makes the census count these; nil without one
	keeper   *keeper                                 // nil: the counters are not kept through a restart
	run      []func(context.Context) error
}

// Run runs what has to run behind the store.
func (c *counting) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	for _, run := range c.run {
		tasks.Go(func() error { return run(ctx) })
	}
	return tasks.Wait()
}

// newStore makes the store.
func newStore(cfg *config.Config, r *telemetry.Registry, ready *admin.Readiness, log *slog.Logger) (*counting, error) {
	c := new(counting)
	if len(cfg.Redis) == 0 {
		counters := memory.New(memory.Config{MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory)})
		observe(counters, r)
		c.Store, c.run = counters, append(c.run, counters.Run)
		if path := cfg.StateFile(os.Getenv); path != "" {
			c.keeper = newKeeper(path, cfg.StateInterval, counters, r, log)
		}
		if c.keeper != nil {
			c.run = append(c.run, c.keeper.Run)
			c.census = c.keeper.census
		}
		c.replicas = func() int { return cfg.Replicas }
	} else {
		counters, err := newRedis(cfg, log)
		if err != nil {
			return nil, err
		}
		counters.Observe(r)
		c.Store, c.replicas = counters, func() int {
			if n := counters.Replicas(); n > 0 {
				return n
			}
			return cfg.Replicas
		}
		c.census, c.counts = counters.Holders, counters.CountHolders
		ready.Refuse(redisSilent) // before anything is served
		c.run = append(c.run, counters.Run, func(ctx context.Context) error { return awaitRedis(ctx, counters, ready, log) })
	}
	if cfg.Front == "on" || cfg.Front == "auto" && len(cfg.Redis) > 0 {
		cache := front.New(front.Config{
			Store: c.Store, MaxKeys: cfg.MaxKeys, MaxBytes: int64(cfg.MaxMemory), Timeout: max(cfg.RedisOf.Timeout, cfg.RLS.Budget),
		})
		observeFront(cache, r)
		c.Store, c.fall, c.cache, c.run = cache, cache, cache, append(c.run, cache.Run)
	}
	return c, nil
}

// begin prepares for the first grant. The service knows how many holders there are.
func (c *counting) begin(s *limiter.Service) {
	if c.keeper != nil {
		c.keeper.holders = s.Holders
		c.keeper.begin()
	}
}

// former are the epochs of lives of the store before this one.
func (c *counting) former() []uint64 {
	if c.keeper == nil {
		return nil
	}
	return c.keeper.former
}

// end is called when nothing is granted or given back any more.
func (c *counting) end() {
	if c.keeper != nil {
		c.keeper.end()
	}
}

// drainTime bounds giving back what is on lease when the service ends.
const drainTime = time.Second

// drain gives back what the lease cache has, while the store still runs: the other
// replicas need not wait until leases end that nobody uses.
func (c *counting) drain(log *slog.Logger) {
	if c.cache == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	d := c.cache.Drain(ctx)
	if d.Lost > 0 || d.Owed > 0 {
		log.Warn("could not give back all that was on lease: what is lost is free again when its lease would have ended", "units", d.Units, "lost", d.Lost, "owed", d.Owed)
		return
	}
	log.Info("gave back what was on lease", "units", d.Units)
}

// redisSilent is why a process is not ready at first.
const redisSilent = "redis has not answered yet"

// awaitRedis makes the process ready, which was refused as redisSilent, when Redis has
// answered once. After that a Redis that fails is for each rule's on_failure: a
// replica that is taken out of service for it could not even do that.
func awaitRedis(ctx context.Context, s *redisstore.Store, ready *admin.Readiness, log *slog.Logger) error {
	const patience = 2 * time.Second
	reason := redisSilent
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		err := s.Ready(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			ready.Allow(reason)
			return nil
		}
		if now := err.Error(); now != reason {
			log.Error("not ready", "reason", now)
			ready.Refuse(now)
			ready.Allow(reason)
			reason = now
		}
	}
}

func newRedis(cfg *config.Config, log *slog.Logger) (*redisstore.Store, error) {
	o := &cfg.RedisOf
	mode, err := redisstore.ParseMode(o.Mode)
	if err != nil {
		return nil, err
	}
	secure, err := redisTLS(o)
	if err != nil {
		return nil, err
	}
	c := redisstore.Config{
		Addrs:          cfg.Redis,
		Mode:           mode,
		SentinelMaster: o.SentinelMaster,
		Username:       o.Username,
		TLS:            secure,
		Timeout:        o.Timeout,
		Lanes:          o.Lanes,
		Queue:          o.Queue,
		Log:            log,

		SentinelUsername: o.SentinelUsername,
	}
	if c.Password, err = password("redis_password_file", o.PasswordFile); err != nil {
		return nil, err
	}
	if c.SentinelPassword, err = password("redis_sentinel_password_file", o.SentinelPasswordFile); err != nil {
		return nil, err
	}
	return redisstore.New(c)
}

// password returns what reads a file with a password and perhaps a line end, once it
// has been read; nil without a file.
func password(field, path string) (func() (string, error), error) {
	if path == "" {
		return nil, nil
	}
	read := func() (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	_, err := read()
	return read, err
}

// redisTLS is nil without TLS.
func redisTLS(o *config.Redis) (*tls.Config, error) {
	if !o.TLS {
		return nil, nil
	}
	c := &tls.Config{ServerName: o.TLSName, MinVersion: tls.VersionTLS12}
	if o.TLSCA != "" {
		authorities, err := os.ReadFile(o.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("redis_tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("redis_tls_ca: " + o.TLSCA + " has no certificate in it; it must be PEM")
		}
	}
	if o.TLSCert != "" {
		// Read for each connection, so that it can be renewed.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
			return &cert, err
		}
		if _, err := c.GetClientCertificate(nil); err != nil {
			return nil, fmt.Errorf("redis_tls_cert: %w", err)
		}
	}
	return c, nil
}

// observe declares the metrics of the memory store.
func observe(s *memory.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_store_keys", "Counters in memory.", func() float64 { return float64(s.Stats().Keys) })
	r.GaugeFunc("weir_store_bytes", "Memory that they take.", func() float64 { return float64(s.Stats().Bytes) })
	r.CounterFunc("weir_store_evictions_total", "Counters forgotten, all of them as good as new.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_store_full_total", "Wants answered unavailable because there was no room for their key.", func() float64 { return float64(s.Stats().Refused) })
}

// observeFront declares the metrics of the lease cache.
func observeFront(s *front.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_front_keys", "Keys in the lease cache.", func() float64 { return float64(s.Stats().Keys) })
	r.CounterFunc("weir_front_leased_total", "Wants answered from a lease in the cache.", func() float64 { return float64(s.Stats().Leased) })
	r.CounterFunc("weir_front_denied_total", "Wants answered from a denial in the cache.", func() float64 { return float64(s.Stats().Denied) })
	r.CounterFunc("weir_front_failed_total", "Wants answered unavailable by the cache, because the store did not answer just before.", func() float64 { return float64(s.Stats().Failed) })
	r.CounterFunc("weir_front_asked_total", "Asks that the cache sent to the store.", func() float64 { return float64(s.Stats().Asked) })
	r.CounterFunc("weir_front_evicted_total", "Keys that gave up their place in the cache to others, with leases given back or a denial to remember.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_front_full_total", "Times that no key in the cache could give up its place, so that an ask went to the store as it was.", func() float64 { return float64(s.Stats().Full) })
}
