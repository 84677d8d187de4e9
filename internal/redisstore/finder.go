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
	"time"

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
	place  int // among the addresses that were configured; beyond them: none of these
}

// errNotClustered is said by a server that is not in cluster mode.
var errNotClustered = errors.New("this server has cluster support disabled")

// errNoSlots is for a node of a cluster that has only been started.
var errNoSlots = errors.New("the cluster has no slots: it is not set up yet")

const (
	// askAtOnce is how many nodes are asked at the same time: one of them may hang, and
	// one of them may be cut off from the rest.
	askAtOnce = 3
	// laggard is how long a look-up waits for those who have not answered yet: before it
	// asks the seeds as well, and after it has been told of a cluster that is well.
	laggard = 100 * time.Millisecond
	// mostPatience is how long a look-up waits for anybody. What began to answer later
	// is asked by the next one.
	mostPatience = 2 * time.Second
)

// find asks a few nodes and believes the one that sees a majority and the newest
// epoch. Where none of the known ones sees a majority, the seeds are asked as well: a
// cluster may have begun anew elsewhere, and a node that was left behind names the
// others where they were.
func (c *cluster) find(ctx context.Context, known []string) (*layout, error) {
	known = slices.Clone(known)
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	p := newPoll(ctx, c.ask)
	defer p.leave()
	p.put(known[:min(len(known), askAtOnce)])
	if p.wait(laggard); !p.best.well() {
		p.put(c.config.Addrs)
		p.wait(mostPatience)
	}
	if c.orSingle && errors.Is(p.best.err, errNotClustered) {
		return whole(c.config.Addrs[0]), nil
	}
	return p.best.layout, p.best.err
}

func (v *view) well() bool { return v.err == nil && v.ok }

// replied reports whether the error is what a server told.
func (v *view) replied() bool {
	return isReply(v.err) || errors.Is(v.err, errNoSlots) || errors.Is(v.err, errNotClustered)
}

// better reports whether v is more to be believed. Of two errors the more telling is:
// what a server says, and then what is wrong with the address that was named first.
func (v *view) better(than *view) bool {
	switch {
	case v.err != nil && than.err != nil:
		if v.replied() != than.replied() {
			return v.replied()
		}
		return v.place < than.place
	case v.err != nil || than.err != nil:
		return than.err != nil
	case v.ok != than.ok:
		return v.ok
	}
	return v.epoch > than.epoch
}

// ask asks one node, over a connection of its own: those of the lanes may be busy. It
// returns soon after the end of ctx.
func (c *cluster) ask(ctx context.Context, addr string) view {
	client := redis.NewClient(c.config.options(addr))
	defer closeClient(client)
	defer context.AfterFunc(ctx, func() { closeClient(client) })() // else it would read on
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
		return view{err: fmt.Errorf("redis cluster, asking %s: %w", addr, err), place: c.place(addr)}
	}
	state := fields(info.Val())
	epoch, _ := strconv.ParseUint(state["cluster_current_epoch"], 10, 64)
	v := view{layout: layoutOf(slots.Val(), addr), ok: state["cluster_state"] != "fail", epoch: epoch}
	v.layout.doubt = !v.ok
	return v
}

// place is where an address stands in the configuration.
func (c *cluster) place(addr string) int {
	if i := slices.Index(c.config.Addrs, addr); i >= 0 {
		return i
	}
	return len(c.config.Addrs)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
		w := <-words
		if w.err != nil {
			failure = w.err
			continue
		}
		if votes[w.addr]++; votes[w.addr] > len(s.config.Addrs)/2 {
			break // the others change nothing, and one of them may hang
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
