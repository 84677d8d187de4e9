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
	// reloadEvery is how often the topology is looked up when nothing says that it
	// changed; with sentinels, whose word is the only one there is, more often.
	reloadEvery         = 30 * time.Second
	reloadSentinelEvery = time.Second
	// reloadPause is the least time between two look-ups, and reloadCalm the most
	// while look-ups are asked for. A look-up takes new connections, and where no
	// replica takes over a master may be dead for hours.
	reloadPause = 100 * time.Millisecond
	reloadCalm  = time.Second
	// forgetAfter is when a node is closed that nobody has named for so long.
	forgetAfter = time.Minute
)

// layout is which masters there are, as a finder learnt it.
type layout struct {
	ranges []slotRange
	known  []string // all addresses, replicas included: whom to ask next time
	doubt  bool     // who named these masters sees no majority: look again soon
}

// slotRange is the slots that a master serves, first and last included.
type slotRange struct {
	first, last int
	addr        string
}

// whole is the layout of a single master.
func whole(addr string) *layout {
	return &layout{ranges: []slotRange{{0, slots - 1, addr}}}
}

// requestReload has the topology looked up soon. However often it is called, look-ups
// follow each other one by one; see pauseAfter.
func (s *Store) requestReload() {
	select {
	case s.reload <- struct{}{}:
	default: // somebody has asked already
	}
}

// followTopology looks up the topology at the start, on request, and now and then.
func (s *Store) followTopology(ctx context.Context) {
	every := reloadEvery
	if s.config.Mode == Sentinel {
		every = reloadSentinelEvery
	}
	row := time.Now() // since when look-ups have followed each other
	for ctx.Err() == nil {
		settled := s.lookUp(ctx)
		sleep(ctx, jittered(pauseAfter(time.Since(row))))
		if settled && s.rest(ctx, jittered(every)) {
			row = time.Now()
		}
	}
}

// pauseAfter is how long to pause in a row of look-ups that has lasted for so long: an
// eighth of it, within bounds. So they hurry when something began, what takes long is
// noticed an eighth later at most, and a Redis that stays sick is left alone.
func pauseAfter(row time.Duration) time.Duration {
	return min(max(row/8, reloadPause), reloadCalm)
}

// rest waits until a look-up is asked for or, at most so long, until it is time for
// one. It reports whether nobody had asked for a while: then all is well.
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

// lookUp learns the topology and applies it, and reports whether that may last. On an
// error the old one stays.
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
			s.config.Log.Warn("redis topology is not known: what was known last holds", "error", s.config.advised(err))
		}
		return false
	}
	s.apply(l)
	return !l.doubt
}

// askable are the addresses that may know the topology: all that are known, except
// those that do not answer.
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

// apply fills the table, and ends nodes that nobody has named for a while.
func (s *Store) apply(l *layout) {
	serving := map[*node]bool{}
	var next [slots]*node
	for _, r := range l.ranges {
		n := s.node(r.addr)
		if n == nil {
			return
		}
		serving[n] = true
		for slot := max(r.first, 0); slot <= min(r.last, slots-1); slot++ {
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

// fullAddress completes the address of a node as another one at origin tells it: a
// missing host is that of origin (an endpoint that the cluster does not know), a
// port of 0 is that of origin (a cluster with TLS only), and a loopback address
// that came from elsewhere means the host that it came from. An IPv6 address may lack
// its brackets: MOVED and ASK write none. It is empty if addr is no address.
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

// splitAddress splits at the last colon, and reports whether there are a host, which
// may be empty, and the number of a port.
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
