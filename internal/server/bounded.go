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
	open map[*conn]struct{}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= b.most {
		_ = b.crowd().leave() // its server sees it
	}
	c := &conn{accepted, b}
	b.open[c] = struct{}{}
	return c, nil
}

// crowd is a connection of the address that has the most.
func (b *bounded) crowd() (of *conn) {
	from, most := map[netip.Addr]int{}, 0
	for c := range b.open {
		address := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		if from[address]++; from[address] > most {
			of, most = c, from[address]
		}
	}
	return of
}

func (c *conn) leave() error {
	delete(c.of.open, c)
	return c.Conn.Close()
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.leave()
}
