package service

import (
	"crypto/sha256"
	"crypto/tls"
	"net/netip"

	"github.com/weirlimit/weir/internal/limit"
)

// source is where holders call from: an address, with TLS one certificate at an address. It is
// bounded, so that one that makes up holders neither keeps those of others out nor makes
// their shares small.
type source struct {
	name    sourceName
	holders map[holderID]*holder // 1 to the bound
	workers int                  // the sum of what they have
}

// sourceName tells sources apart.
type sourceName struct {
	address     netip.Addr // of IPv6 the first half; zero: unknown
	certificate [sha256.Size]byte
}

// origin is what a call shows of its source.
type origin struct {
	from   string               // address and port of the caller; empty: unknown
	secure *tls.ConnectionState // nil: without TLS
}

func (o *origin) source() (name sourceName) {
	if at, err := netip.ParseAddrPort(o.from); err == nil {
		name.address = at.Addr().Unmap().WithZone("")
	}
	if name.address.Is6() { // a host has a whole network of them
		name.address = netip.PrefixFrom(name.address, 64).Masked().Addr()
	}
	if o.secure != nil && len(o.secure.PeerCertificates) > 0 {
		name.certificate = sha256.Sum256(o.secure.PeerCertificates[0].Raw)
	}
	return name
}

// sourceOf is the source of a new holder; nil if it has its most holders, and all are live.
func (h *holders) sourceOf(o *origin, now limit.Micros) *source {
	name := o.source()
	from := h.sources[name]
	if from == nil {
		from = &source{name: name, holders: make(map[holderID]*holder, 1)}
		h.sources[name] = from
	}
	if len(from.holders) < h.maxPerSource {
		return from
	}
	for id, who := range from.holders {
		if since(who.seen, now) >= liveFor {
			h.forget(id, who)
		}
	}
	if len(from.holders) >= h.maxPerSource {
		return nil
	}
	h.sources[name] = from // the last of its holders may have been forgotten
	return from
}

// forget forgets a holder.
func (h *holders) forget(id holderID, who *holder) {
	h.addWorkers(who, -len(who.workers))
	delete(h.known, id)
	delete(who.source.holders, id)
	if len(who.source.holders) == 0 {
		delete(h.sources, who.source.name)
	}
}

// addWorkers counts so many workers more of a holder.
func (h *holders) addWorkers(who *holder, n int) {
	h.workers += n
	who.source.workers += n
}
