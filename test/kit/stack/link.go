package stack

import (
	"errors"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Link is the network between a caller and a tier above it, and does to it what the
// test asks for. It starts out perfect.
type Link struct {
	Addr string // where the caller finds the tier

	t     proc.T
	to    string // address of the tier
	proxy *toxiproxy.Proxy
	sieve *sieve // nil: nothing was lost yet
	trip  time.Duration
	named int // toxics; each has a name of its own
}

// NewLink starts a link to addr, which need not answer yet.
func NewLink(t proc.T, addr string) *Link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{t: t, Addr: proc.FreeAddr(t), to: addr}
	l.proxy = toxiproxy.NewProxy(server, "link", l.Addr, addr)
	if err := l.proxy.Start(); err != nil {
		t.Fatalf("link to %s: %v", addr, err)
	}
	t.Cleanup(l.proxy.Stop)
	return l
}

// Cut closes every connection and refuses new ones until Heal.
func (l *Link) Cut() { l.proxy.Stop() }

// SetTrip heals the link, and sets how long a call and its reply travel, half of it each,
// whatever happens to the link from now on.
func (l *Link) SetTrip(d time.Duration) {
	l.t.Helper()
	l.trip = d
	l.Heal()
}

// Delay holds every reply back for d, until Heal.
func (l *Link) Delay(d time.Duration) {
	l.t.Helper()
	l.add(latency, "downstream", d)
}

// Slow has a call and its reply travel for d, half of it each, until Heal.
func (l *Link) Slow(d time.Duration) {
	l.t.Helper()
	l.proxy.Toxics.ResetToxics(l.t.Context())
	l.travel(d)
}

// Lose loses a share of the calls, 0 to 1, until Heal: of every two that are lost one does not arrive, and
// of the other the reply is lost. The caller hears nothing; the connection stays well. It closes what was
// open.
func (l *Link) Lose(share float64) {
	l.t.Helper()
	if l.sieve == nil {
		l.sieve = newSieve(l.t, l.to)
	}
	l.sieve.setShare(share)
	l.passTo(l.sieve.addr)
}

// Swallow takes the replies and passes none on, with connections left open: a network
// that hangs. Until Heal, which closes what was open.
func (l *Link) Swallow() {
	l.t.Helper()
	l.add(silence, "downstream", 0)
}

// SwallowCalls is Swallow for the calls: none arrives.
func (l *Link) SwallowCalls() {
	l.t.Helper()
	l.add(silence, "upstream", 0)
}

// Heal makes the link perfect again, but for its trip.
func (l *Link) Heal() {
	l.t.Helper()
	l.proxy.Toxics.ResetToxics(l.t.Context())
	l.travel(l.trip)
	l.passTo(l.to)
}

// travel adds what a call and its reply take.
func (l *Link) travel(d time.Duration) {
	l.t.Helper()
	if d > 0 {
		l.add(latency, "upstream", d/2)
		l.add(latency, "downstream", d/2)
	}
}

// passTo passes on to addr. Connections to another address are closed.
func (l *Link) passTo(addr string) {
	l.t.Helper()
	if l.proxy.Upstream != addr {
		l.proxy.Stop() // nothing reads the address now
		l.proxy.Upstream = addr
	}
	if err := l.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		l.t.Fatalf("link: %v", err)
	}
}

// What the proxy can do to what passes it. Each takes a time; silence lasts until it is
// removed if that is 0.
const (
	latency = `"type": "latency", "attributes": {"latency": %d}`
	silence = `"type": "timeout", "attributes": {"timeout": %d}`
)

// add does something to one direction: upstream are the calls, downstream the replies.
func (l *Link) add(toxic, direction string, d time.Duration) {
	l.t.Helper()
	l.named++
	text := fmt.Sprintf(`{"name": "%d", "stream": %q, `+toxic+`}`, l.named, direction, d.Milliseconds())
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		l.t.Fatalf("link: %s: %v", text, err)
	}
}
