package server

import (
	"net"
	"net/netip"
	"sync"
)

// bounded is a port with a bound of connections. For one more it closes a connection of the address that has the most.
type bounded struct {
	net.Listener
	most int
	mu   sync.Mutex
	open int
	from map[netip.Addr]map[*conn]struct{} // the open connections of each address
}

// conn leaves its port when it closes.
type conn struct {
	net.Conn
	of      *bounded
	address netip.Addr
}

func (b *bounded) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{accepted, b, accepted.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.most {
		_ = b.crowd().leave() // its server sees it
	}
	if b.from[c.address] == nil {
		b.from[c.address] = map[*conn]struct{}{}
	}
	b.from[c.address][c] = struct{}{}
	b.open++
	return c, nil
}

// crowd is a connection of the address that has the most.
func (b *bounded) crowd() (c *conn) {
	var most map[*conn]struct{}
	for _, conns := range b.from {
		if len(conns) > len(most) {
			most = conns
		}
	}
	for c = range most {
		break
	}
	return c
}

// leave closes the connection. It may have left before.
func (c *conn) leave() error {
	conns := c.of.from[c.address]
	if _, open := conns[c]; open {
		delete(conns, c)
		c.of.open--
	}
	if len(conns) == 0 {
		delete(c.of.from, c.address)
	}
	return c.Conn.Close()
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.leave()
}
