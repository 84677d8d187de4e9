package stack

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Link is the network between a PoP and its region, and does to it what the test
// asks for. It starts out perfect.
type Link struct {
	Addr string // where the PoP finds the region

	t     testing.TB
	proxy *toxiproxy.Proxy
}

// NewLink starts a link to addr, which need not answer yet.
func NewLink(t testing.TB, addr string) *Link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{t: t, Addr: proc.FreeAddr(t)}
	l.proxy = toxiproxy.NewProxy(server, "region", l.Addr, addr)
	if err := l.proxy.Start(); err != nil {
		t.Fatalf("link to %s: %v", addr, err)
	}
	t.Cleanup(l.proxy.Stop)
	return l
}

// Cut closes every connection and refuses new ones until Heal.
func (l *Link) Cut() { l.proxy.Stop() }

// Delay holds every reply of the region back for d, until Heal.
func (l *Link) Delay(d time.Duration) {
	l.t.Helper()
	l.add(fmt.Sprintf(`{"type": "latency", "attributes": {"latency": %d}}`, d.Milliseconds()))
}

// Swallow takes the region's replies and passes none on, with connections left
// open: a network that hangs. Until Heal, which closes what was open.
func (l *Link) Swallow() {
	l.t.Helper()
	l.add(`{"type": "timeout", "attributes": {"timeout": 0}}`)
}

// Heal makes the link perfect again.
func (l *Link) Heal() {
	l.t.Helper()
	l.proxy.Toxics.ResetToxics(l.t.Context())
	if err := l.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		l.t.Fatalf("link: %v", err)
	}
}

func (l *Link) add(toxic string) {
	l.t.Helper()
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		l.t.Fatalf("link: %s: %v", toxic, err)
	}
}
