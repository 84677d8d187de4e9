package server

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// bounded is a port with a bound of connections. For one more it closes a connection of the address that has the most.
type bounded struct {
	net.Listener
	most int
	mu   sync.Mutex
	open map[*conn]netip.Addr
	from map[netip.Addr]int // open connections of each address
}

// conn leaves its port when it closes.
type conn struct {
	net.Conn
	of *bounded
}

func (b *bounded) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c, from := &conn{accepted, b}, accepted.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= b.most {
		_ = b.crowd().leave() // its server sees it
	}
	b.open[c] = from
	b.from[from]++
	return c, nil
}

// crowd is a connection of the address that has the most: few others are looked at before one of these.
func (b *bounded) crowd() *conn {
	most := slices.Max(slices.Collect(maps.Values(b.from)))
	for c, from := range b.open {
		if b.from[from] == most {
			return c
		}
	}
	return nil // never
}

// leave closes the connection, which may have left before.
func (c *conn) leave() error {
	if from, open := c.of.open[c]; open {
		delete(c.of.open, c)
		if c.of.from[from]--; c.of.from[from] == 0 {
			delete(c.of.from, from)
		}
	}
	return c.Conn.Close()
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.leave()
}
