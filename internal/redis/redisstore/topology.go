package redisstore

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	// reloadEvery is the time between two look-ups of the topology when nothing has
	// changed; with sentinels, which are the only source, it is reloadSentinelEvery.
	reloadEvery         = 30 * time.Second
	reloadSentinelEvery = time.Second
	// reloadPause is the least time between two look-ups, and reloadCalm the longest
	// while look-ups are requested. A look-up opens new connections, and without a replica
	// to take over a master may be down for hours.
	reloadPause = 100 * time.Millisecond
	reloadCalm  = time.Second
	// forgetAfter is the time after which a node is closed that neither the topology nor a
	// redirect has named.
	forgetAfter = time.Minute
)

// layout lists the masters and their hash slots, as a finder read them.
type layout struct {
	ranges []hashSlotRange
	known  []string // all addresses, replicas included, for the next look-up
	doubt  bool     // the source of this layout reaches no majority: look up again soon
}

// hashSlotRange is a range of hash slots that a master serves, first and last included.
type hashSlotRange struct {
	first, last int
	addr        string
}

// whole returns the layout of a single master.
func whole(addr string) *layout {
	return &layout{ranges: []hashSlotRange{{0, hashSlots - 1, addr}}}
}

// requestReload requests a look-up of the topology. Requests that arrive before it
// begins are answered by the same look-up; see pauseAfter.
func (s *Store) requestReload() {
	select {
	case s.reload <- struct{}{}:
	default: // one is requested already
	}
}

// followTopology looks up the topology at the start, on request, and periodically.
func (s *Store) followTopology(ctx context.Context) {
	every := reloadEvery
	if s.config.Mode == Sentinel {
		every = reloadSentinelEvery
	}
	row := time.Now() // the begin of this row of look-ups
	for ctx.Err() == nil {
		settled := s.lookUp(ctx)
		sleep(ctx, jittered(pauseAfter(time.Since(row))))
		if settled && s.rest(ctx, jittered(every)) {
			row = time.Now()
		}
	}
}

// pauseAfter returns the pause in a row of look-ups that has lasted for so long: an
// eighth of it, within bounds. So look-ups are frequent at the begin of a failure, they
// notice its end at most an eighth later, and a Redis that stays down gets few of them.
func pauseAfter(row time.Duration) time.Duration {
	return min(max(row/8, reloadPause), reloadCalm)
}

// rest waits until a look-up is requested, or for the given time at most. It reports
// whether no request came for a while: then the row of look-ups is over.
func (s *Store) rest(ctx context.Context, most time.Duration) bool {
	begin := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.reload:
	}
	return time.Since(begin) >= reloadCalm/2
}

// lookUp reads the topology and applies it. It reports whether the topology is settled.
// On an error the old one stays.
func (s *Store) lookUp(ctx context.Context) (settled bool) {
	s.counters.reloads.Add(1)
	l, err := s.finder.find(ctx, s.askable())
	s.mu.Lock()
	changed := (err == nil) != (s.cause == nil)
	s.cause = err
	if err == nil {
		s.known = l.known
	}
	s.mu.Unlock()
	if err != nil {
		if changed && ctx.Err() == nil {
			s.config.Log.Warn("cannot read the redis topology; the last one stays in use", "error", s.config.advised(err))
		}
		return false
	}
	s.apply(l)
	return !l.doubt
}

// askable returns the addresses to read the topology from: all known ones, except
// those whose breaker is open.
func (s *Store) askable() (addrs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, addr := range s.known {
		if n := s.nodes[addr]; n == nil || !n.open.Load() {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// apply fills the table of hash slots, and stops nodes that were not named for a while.
func (s *Store) apply(l *layout) {
	serving := map[*node]bool{}
	var next [hashSlots]*node
	for _, r := range l.ranges {
		n := s.node(r.addr)
		if n == nil {
			return
		}
		serving[n] = true
		for slot := max(r.first, 0); slot <= min(r.last, hashSlots-1); slot++ {
			next[slot] = n
		}
	}
	for slot, n := range next {
		if s.table[slot].Load() != n {
			s.table[slot].Store(n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, n := range s.nodes {
		n.serves.Store(serving[n])
		if !serving[n] && time.Since(s.began)-time.Duration(n.named.Load()) > forgetAfter {
			n.stop()
			delete(s.nodes, addr)
		}
	}
}

// fullAddress completes the address of a node as another node at origin returned it. A
// missing host is that of origin (the cluster has no endpoint for it), a port of 0 is
// that of origin (a cluster with TLS only), and a loopback address from another host
// means that host. An IPv6 address may lack its brackets: MOVED and ASK write none. It
// returns an empty string if addr is no address.
func fullAddress(addr, origin string) string {
	host, port, ok := splitAddress(addr)
	originHost, originPort, originOK := splitAddress(origin)
	if !ok || !originOK {
		return ""
	}
	originHost = cmp.Or(originHost, "localhost")
	if host == "" || host == "?" || isLoopback(host) && !isLoopback(originHost) {
		host = originHost
	}
	if port == "0" {
		port = originPort
	}
	return net.JoinHostPort(host, port)
}

// splitAddress splits at the last colon. ok is true if there are a host, which may be
// empty, and a port number.
func splitAddress(addr string) (host, port string, ok bool) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", "", false
	}
	host, port = addr[:colon], addr[colon+1:]
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed && strings.HasSuffix(inner, "]") {
		host = inner[:len(inner)-1]
	}
	if strings.ContainsAny(host, ":[]") {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", "", false
		}
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return host, port, err == nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
