package service

import (
	"crypto/sha256"
	"crypto/tls"
	"net/netip"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// liveFor is how long after its last call a holder counts as live. A holder that has
	// nothing to ask for does not call, and no longer counts when shares are computed.
	liveFor = 10 * limit.Second
	// recountEvery is how old the count of live holders may be, and how often room is
	// made for others at most.
	recountEvery = limit.Second
	// maxPerHolder bounds the workers of one holder that are remembered. One more takes the
	// place of that worker of the holder which has not called for the longest time.
	maxPerHolder = 512
)

// holders are the callers, remembered so that no call is applied twice. It is safe for
// concurrent use.
type holders struct {
	mu           sync.Mutex
	maxWorkers   int // of all holders
	maxPerSource int // holders of one source
	workers      int // the sum of what the holders have
	known        map[holderID]*holder
	sources      map[sourceName]*source // of those that are known
	live         int                    // holders, as of counted
	counted      limit.Micros           // when
	cleared      limit.Micros           // when room was made last
}

// holder is one process.
type holder struct {
	seen    limit.Micros // the last call of any worker
	source  *source      // of its first call
	workers map[uint64]*worker
}

// holderID names a holder: random, made once per process.
type holderID [16]byte

// hash is the same at every replica, never 0.
func (id holderID) hash() uint64 {
	return max(engine.Hash(id[:]), 1)
}

// worker is a sequence of calls: that of one worker of a holder, or of a whole holder that
// sends no worker, which is number 0.
type worker struct {
	lease.Caller
	seen limit.Micros
}

func newHolders(maxWorkers, maxPerSource int) *holders {
	return &holders{
		maxWorkers: maxWorkers, maxPerSource: maxPerSource, counted: -limit.Day, cleared: -limit.Day,
		known: make(map[holderID]*holder), sources: make(map[sourceName]*source),
	}
}

// accept notes a call. It is not fresh if it is a repetition. An error is that there is no room
// to remember one more holder.
func (h *holders) accept(id holderID, number, seq uint64, at *origin, now limit.Micros) (fresh bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := h.known[id]
	if who == nil {
		if !h.hasCapacity(now) {
			return false, errTooManyHolders
		}
		from := h.sourceOf(at, now)
		if from == nil {
			return false, errTooManyOfAddress
		}
		who = &holder{workers: make(map[uint64]*worker, 1), source: from}
		h.known[id], from.holders[id] = who, who
		h.live++
	}
	who.seen = now
	one := who.workers[number]
	if one == nil {
		one = h.addWorker(who, number, now)
	}
	one.seen = now
	return one.Accept(seq), nil
}

// addWorker remembers one more worker of a holder.
func (h *holders) addWorker(who *holder, number uint64, now limit.Micros) *worker {
	if len(who.workers) >= maxPerHolder || who.source.workers >= max(h.maxWorkers/4, maxPerHolder) || !h.hasCapacity(now) {
		h.addWorkers(who, -who.forgetOldest())
	}
	one := new(worker)
	who.workers[number] = one
	h.addWorkers(who, 1)
	return one
}

// forgetOldest makes room among the workers of a holder, and returns for how many.
func (who *holder) forgetOldest() int {
	if len(who.workers) == 0 {
		return 0
	}
	var oldest uint64
	var least *worker
	for number, one := range who.workers {
		if least == nil || one.seen < least.seen {
			oldest, least = number, one
		}
	}
	delete(who.workers, oldest)
	return 1
}

// count is how many holders called within liveFor.
func (h *holders) count(now limit.Micros) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since(h.counted, now) >= recountEvery {
		h.recount(now)
	}
	return h.live
}

// lately are hashes of the holders that called within that time.
func (h *holders) lately(now, within limit.Micros) (hashes []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, who := range h.known {
		if since(who.seen, now) < within {
			hashes = append(hashes, id.hash())
		}
	}
	return hashes
}

func (h *holders) recount(now limit.Micros) {
	h.live, h.counted = 0, now
	for _, who := range h.known {
		if since(who.seen, now) < liveFor {
			h.live++
		}
	}
}

// hasCapacity reports whether one more worker can be remembered. If need be it forgets those
// that have not called for liveFor: a call that they sent before cannot arrive any more.
func (h *holders) hasCapacity(now limit.Micros) bool {
	if h.workers < h.maxWorkers || since(h.cleared, now) < recountEvery {
		return h.workers < h.maxWorkers
	}
	h.cleared = now
	for id, who := range h.known {
		for number, one := range who.workers {
			if since(one.seen, now) >= liveFor {
				delete(who.workers, number)
				h.addWorkers(who, -1)
			}
		}
		if since(who.seen, now) >= liveFor {
			h.forget(id, who)
		}
	}
	h.recount(now)
	return h.workers < h.maxWorkers
}

// since is the time between two readings of a clock that may have been set back.
func since(then, now limit.Micros) limit.Micros { return max(now-then, then-now) }

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
