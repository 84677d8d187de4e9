package topology

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// cluster reads the topology from nodes of a Redis Cluster.
type cluster struct {
	config   *Config
	orSingle bool // a server without cluster mode is used as the only one
}

// view is the cluster as one node describes it.
type view struct {
	layout *layout
	ok     bool   // cluster_state: the node can see the majority
	epoch  uint64 // cluster_current_epoch
	err    error
	place  int // index among the configured addresses; their number: none of these
}

var errNoneKnown = errors.New("redis: no node of the cluster is known")

// errNotClustered is the error of a server that is not in cluster mode.
var errNotClustered = errors.New("this server has cluster support disabled")

// errNoSlots is the error of a node that runs in cluster mode and has joined no cluster.
var errNoSlots = errors.New("the cluster has no slots: it is not set up yet")

const (
	// askAtOnce is the number of nodes that are asked at the same time: one of them may
	// hang, and another may be cut off from the rest.
	askAtOnce = 3
	// laggard is how long a look-up waits for nodes that have not answered: before it asks
	// the seeds as well, and after a node has returned a healthy cluster.
	laggard = 100 * time.Millisecond
	// mostPatience is how long a look-up waits at all. The next look-up asks the nodes that
	// were too late.
	mostPatience = 2 * time.Second
)

// find asks a few nodes and uses the view of the one that reaches a majority and the newest
// epoch. If none of the known nodes reaches a majority, it asks the seeds as well: the
// cluster may have been set up again elsewhere, and a node that was left behind returns
// the old addresses.
func (c *cluster) find(ctx context.Context, known []string) (*layout, error) {
	known = slices.Clone(known)
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	s := search{newPoll(ctx, c.ask), view{err: errNoneKnown, place: math.MaxInt}}
	defer s.cancel()
	s.put(known[:min(len(known), askAtOnce)])
	if s.wait(laggard); !s.best.well() {
		s.put(c.config.Addrs)
		s.wait(mostPatience)
	}
	if c.orSingle && errors.Is(s.best.err, errNotClustered) {
		return whole(c.config.Addrs[0]), nil
	}
	return s.best.layout, s.best.err
}

func (v *view) well() bool { return v.err == nil && v.ok }

// replied reports whether the error is a reply of a server.
func (v *view) replied() bool {
	return isReply(v.err) || errors.Is(v.err, errNoSlots) || errors.Is(v.err, errNotClustered)
}

// better reports whether v is preferred. Of two errors a reply of a server is preferred,
// then the one of the address that was configured first.
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

// ask reads the view of one node, over a connection of its own: those of the lanes may be
// busy. It returns soon after ctx ends.
func (c *cluster) ask(ctx context.Context, addr string) view {
	client := redis.NewClient(c.config.options(addr, 1))
	defer closeClient(client)
	defer context.AfterFunc(ctx, func() { closeClient(client) })() // go-redis would read on
	pipe := client.Pipeline()
	slots, info := pipe.ClusterSlots(ctx), pipe.ClusterInfo(ctx)
	_, err := pipe.Exec(ctx)
	switch {
	case slots.Err() != nil:
		err = slots.Err()
	case err != nil && forbidden(err): // who may not see the state would follow a node that is cut off
	case len(slots.Val()) > 0:
		err = nil
	case err == nil:
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

// place returns the index of an address in the configuration.
func (c *cluster) place(addr string) int {
	if i := slices.Index(c.config.Addrs, addr); i >= 0 {
		return i
	}
	return len(c.config.Addrs)
}

// layoutOf reads the reply of origin to CLUSTER SLOTS.
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

// fields reads lines of name:value, the format of INFO.
func fields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// search is the look-up of a cluster. It belongs to one goroutine.
type search struct {
	*poll[view]
	best view
}

// wait waits until all nodes have answered, at most for the given time, and at most for
// laggard after the first view of a healthy cluster.
func (s *search) wait(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for v, ok := s.next(timer.C); ok; v, ok = s.next(timer.C) {
		if v.well() && !s.best.well() {
			timer.Reset(laggard)
		}
		if v.better(&s.best) {
			s.best = v
		}
	}
}
