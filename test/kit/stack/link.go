package stack

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Link is the network between a caller and a tier above it, and does to it what the
// test asks for. It starts out perfect.
type Link struct {
	Addr string // where the caller finds the tier

	t  proc.T
	to string // address of the tier

	mu       sync.Mutex
	listener net.Listener // nil: the link is cut
	conns    map[net.Conn]bool
	trip     time.Duration // of a call and its reply, whatever else happens
	calls    direction
	replies  direction
}

// direction is what happens to bytes that travel one way.
type direction struct {
	delay   time.Duration
	swallow bool
}

// NewLink starts a link to addr, which need not answer yet.
func NewLink(t proc.T, addr string) *Link {
	t.Helper()
	l := &Link{t: t, Addr: proc.FreeAddr(t), to: addr, conns: map[net.Conn]bool{}}
	l.Heal()
	t.Cleanup(l.Cut)
	return l
}

// Cut closes every connection and rejects new ones until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	l.closeAll()
}

// SetTrip heals the link, and sets how long a call and its reply travel, half of it each,
// whatever happens to the link from now on.
func (l *Link) SetTrip(d time.Duration) {
	l.t.Helper()
	l.mu.Lock()
	l.trip = d
	l.mu.Unlock()
	l.Heal()
}

// Slow has a call and its reply travel for d, half of it each, until Heal.
func (l *Link) Slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.delay, l.replies.delay = d/2, d/2
}

// Swallow takes the replies and passes none on, with connections left open: a network
// that hangs. Until Heal, which closes what was open.
func (l *Link) Swallow() { l.silence(&l.replies) }

// SwallowCalls is Swallow for the calls: none arrives.
func (l *Link) SwallowCalls() { l.silence(&l.calls) }

func (l *Link) silence(d *direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.swallow = true
}

// Heal makes the link perfect again, but for its trip.
func (l *Link) Heal() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls.swallow || l.replies.swallow {
		l.closeAll()
	}
	l.calls, l.replies = direction{delay: l.trip / 2}, direction{delay: l.trip / 2}
	if l.listener != nil {
		return
	}
	var err error
	if l.listener, err = net.Listen("tcp", l.Addr); err != nil {
		l.t.Fatalf("link to %s: %v", l.to, err)
	}
	go l.accept(l.listener)
}

// closeAll closes every connection.
func (l *Link) closeAll() {
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// accept joins each connection of a caller with one to the tier.
func (l *Link) accept(from net.Listener) {
	for {
		caller, err := from.Accept()
		if err != nil {
			return
		}
		go func() {
			tier, err := net.Dial("tcp", l.to)
			if err != nil {
				_ = caller.Close()
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.listener != from { // the link was cut meanwhile
				_ = errors.Join(caller.Close(), tier.Close())
				return
			}
			l.conns[caller], l.conns[tier] = true, true
			go l.pass(caller, tier, &l.calls)
			go l.pass(tier, caller, &l.replies)
		}()
	}
}

// packet is bytes on their way.
type packet struct {
	bytes []byte
	due   time.Time // when they arrive
}

// pass passes on what comes from one end to the other, until one of them closes.
func (l *Link) pass(from, to net.Conn, d *direction) {
	underway := make(chan packet, 1<<10)
	go func() {
		for p := range underway {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close() // which ends the reading, and so this loop
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range []net.Conn{from, to} {
			_ = c.Close()
			delete(l.conns, c)
		}
	}()
	defer close(underway)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		l.mu.Lock()
		delay, swallow := d.delay, d.swallow
		l.mu.Unlock()
		if n > 0 && !swallow {
			underway <- packet{buf[:n], time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}

// Between starts a proxy of calls to an address, HTTP/1.1 and HTTP/2 without TLS, and returns where it listens. The
// handler of the test decides what becomes of a call; pass passes it on. A proxy of bytes cannot do that: calls
// share a connection.
func Between(t proc.T, to string, handler func(pass http.Handler) http.Handler) (addr string) {
	t.Helper()
	var protocols, above http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	above.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &above}
	t.Cleanup(transport.CloseIdleConnections)
	server := httptest.NewUnstartedServer(handler(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: to}) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0), // tiers end
	}))
	server.Config.Protocols = &protocols
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // first: what is lost is not over soon
	return server.Listener.Addr().String()
}
