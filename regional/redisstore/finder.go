package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// finder learns which masters there are. known are addresses that it found before
// and that may answer.
type finder interface {
	find(ctx context.Context, known []string) (*layout, error)
}

func (s *Store) newFinder() finder {
	c := &s.config
	switch {
	case c.Mode == Single:
		return single(c.Addrs[0])
	case c.Mode == Sentinel:
		return &sentinels{config: c}
	}
	return &cluster{config: c, orSingle: c.Mode == Auto && len(c.Addrs) == 1}
}

// single is one server, which nobody needs to be asked about.
type single string

func (s single) find(context.Context, []string) (*layout, error) { return whole(string(s)), nil }

// cluster asks nodes of a Redis Cluster.
type cluster struct {
	config   *Config
	orSingle bool // a server without cluster mode is taken for what there is
}

// view is what one node says about the cluster.
type view struct {
	layout *layout
	ok     bool   // cluster_state: the node can see the majority
	epoch  uint64 // cluster_current_epoch
	err    error
}

// errNotClustered is said by a server that is not in cluster mode.
var errNotClustered = errors.New("this server has cluster support disabled")

// errNoSlots is for a node of a cluster that has only been started.
var errNoSlots = errors.New("the cluster has no slots: it is not set up yet")

// askAtOnce is how many nodes are asked at the same time: one of them may hang, and
// one of them may be cut off from the rest.
const askAtOnce = 3

// find asks a few nodes and believes the one that sees a majority and the newest
// epoch. Where none of the known ones answers, the seeds are asked.
func (c *cluster) find(ctx context.Context, known []string) (*layout, error) {
	known = slices.Clone(known)
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	if len(known) > askAtOnce {
		known = known[:askAtOnce]
	}
	best := c.best(ctx, known)
	if best.err != nil {
		best = c.best(ctx, c.config.Addrs)
	}
	if c.orSingle && errors.Is(best.err, errNotClustered) {
		return whole(c.config.Addrs[0]), nil
	}
	return best.layout, best.err
}

// best asks all of addrs at once and returns the best of what they say, or the
// error of one.
func (c *cluster) best(ctx context.Context, addrs []string) view {
	views := make(chan view, len(addrs))
	for _, addr := range addrs {
		go func() { views <- c.ask(ctx, addr) }()
	}
	best := view{err: errors.New("redis: no node of the cluster is known")}
	for range addrs {
		if v := <-views; v.better(&best) {
			best = v
		}
	}
	return best
}

func (v *view) better(than *view) bool {
	switch {
	case v.err != nil:
		return than.err != nil
	case than.err != nil:
		return true
	case v.ok != than.ok:
		return v.ok
	}
	return v.epoch > than.epoch
}

// ask asks one node, over a connection of its own: those of the lanes may be busy.
func (c *cluster) ask(ctx context.Context, addr string) view {
	client := redis.NewClient(c.config.options(addr))
	defer closeClient(client)
	pipe := client.Pipeline()
	slots, info := pipe.ClusterSlots(ctx), pipe.ClusterInfo(ctx)
	_, err := pipe.Exec(ctx)
	if slots.Err() != nil {
		err = slots.Err()
	} else if len(slots.Val()) > 0 {
		err = nil // that info is forbidden is no harm
	} else if err == nil {
		err = errNoSlots
	}
	if err != nil && isReply(err) && strings.Contains(err.Error(), "cluster support disabled") {
		err = errNotClustered
	}
	if err != nil {
		return view{err: fmt.Errorf("redis cluster, asking %s: %w", addr, err)}
	}
	state := fields(info.Val())
	epoch, _ := strconv.ParseUint(state["cluster_current_epoch"], 10, 64)
	return view{layout: layoutOf(slots.Val(), addr), ok: state["cluster_state"] != "fail", epoch: epoch}
}

// layoutOf reads CLUSTER SLOTS as origin answered it.
func layoutOf(ranges []redis.ClusterSlot, origin string) *layout {
	l := new(layout)
	for _, r := range ranges {
		for i, n := range r.Nodes {
			addr := fullAddress(n.Addr, origin)
			if addr == "" {
				continue
			}
			if i == 0 { // the master is the first one
				l.ranges = append(l.ranges, slotRange{r.Start, r.End, addr})
			}
			if !slices.Contains(l.known, addr) {
				l.known = append(l.known, addr)
			}
		}
	}
	return l
}

// fields reads lines of name:value, as INFO has them.
func fields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// sentinels ask Redis Sentinel for the master.
type sentinels struct {
	config *Config
	last   string // the master that they named last
}

// find asks all sentinels and believes most of them; of two that are named equally
// often, the one that was named before.
func (s *sentinels) find(ctx context.Context, _ []string) (*layout, error) {
	type word struct {
		addr string
		err  error
	}
	words := make(chan word, len(s.config.Addrs))
	for _, addr := range s.config.Addrs {
		go func() {
			master, err := s.ask(ctx, addr)
			words <- word{master, err}
		}()
	}
	votes := map[string]int{}
	var failure error
	for range s.config.Addrs {
		if w := <-words; w.err != nil {
			failure = w.err
		} else {
			votes[w.addr]++
		}
	}
	master, most := "", 0
	for addr, n := range votes {
		if n > most || n == most && addr == s.last {
			master, most = addr, n
		}
	}
	if most == 0 {
		return nil, failure
	}
	s.last = master
	return whole(master), nil
}

// ask asks one sentinel.
func (s *sentinels) ask(ctx context.Context, addr string) (string, error) {
	o := s.config.options(addr)
	o.CredentialsProviderContext = credentials(s.config.SentinelUsername, s.config.SentinelPassword)
	client := redis.NewClient(o)
	defer closeClient(client)
	parts, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.config.SentinelMaster).StringSlice()
	switch {
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("redis sentinel %s: it monitors no master named %q", addr, s.config.SentinelMaster)
	case err != nil:
		return "", fmt.Errorf("redis sentinel %s: %w", addr, err)
	case len(parts) == 2:
		if master := fullAddress(net.JoinHostPort(parts[0], parts[1]), addr); master != "" {
			return master, nil
		}
	}
	return "", fmt.Errorf("redis sentinel %s: master %q has the address %q, want host and port", addr, s.config.SentinelMaster, parts)
}
