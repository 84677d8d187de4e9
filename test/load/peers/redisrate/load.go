package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

const (
	pipelined = 50 // acquires per pipeline
	perMaster = 2  // pipelines in flight, so that a master never waits for one
)

// load is keys by the master that has them: a pipeline goes to one server.
type load struct {
	limit   redis_rate.Limit
	masters []master
}

type master struct {
	client *redis.Client
	keys   []string
}

func newLoad(ctx context.Context, cluster *redis.ClusterClient, keys, limit int) (*load, error) {
	if keys <= 0 || limit <= 0 {
		return nil, errors.New("keys and limit have to be positive")
	}
	byAddr := map[string]int{}
	l := &load{limit: redis_rate.PerHour(limit)}
	for i := range keys {
		key := fmt.Sprintf("user-%08d", i)
		client, err := cluster.MasterForKey(ctx, "rate:"+key)
		if err != nil {
			return nil, err
		}
		at, known := byAddr[client.Options().Addr]
		if !known {
			at = len(l.masters)
			byAddr[client.Options().Addr] = at
			l.masters = append(l.masters, master{client: client})
		}
		l.masters[at].keys = append(l.masters[at].keys, key)
	}
	return l, nil
}

// run acquires one unit of keys drawn at random until the time is over.
func (l *load) run(ctx context.Context, d time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	end := time.Now().Add(d)
	return l.each(func(keys []string, p *pipeline) error {
		drawn := make([]string, pipelined)
		for time.Now().Before(end) {
			for i := range drawn {
				drawn[i] = keys[rand.IntN(len(keys))]
			}
			if err := p.acquire(ctx, l.limit, drawn); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill acquires one unit of each key.
func (l *load) fill(ctx context.Context) (int, error) {
	return l.each(func(keys []string, p *pipeline) error {
		for part := range slices.Chunk(keys, pipelined) {
			if err := p.acquire(ctx, l.limit, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// each runs f on perMaster pipelines of every master, with a share of its keys,
// and returns how many acquires that were.
func (l *load) each(f func(keys []string, p *pipeline) error) (int, error) {
	var g errgroup.Group
	var acquired atomic.Int64
	for _, m := range l.masters {
		share := (len(m.keys) + perMaster - 1) / perMaster
		for keys := range slices.Chunk(m.keys, share) {
			g.Go(func() error {
				p := &pipeline{client: m.client}
				err := f(keys, p)
				acquired.Add(int64(p.acquired))
				return err
			})
		}
	}
	err := g.Wait()
	return int(acquired.Load()), err
}
