package sim

import (
	"context"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// recordLate is how much later than it was written the record of a region may be in use at its replicas: they read it
// four times a second.
const recordLate = 300 * limit.Millisecond

// Leases of the reserve and of the trickle have other names than those of the aggregator.
const (
	reserveOf, reserveTag = "reserve of ", 1 << 31
	trickleOf, trickleTag = "trickle of ", 3 << 30
)

// ownStore is what a region counts itself, its reserve, as one of its replicas calls it.
type ownStore struct {
	engine.Store
	of *life
}

func (s *ownStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	s.Store.Acquire(ctx, asks, grants)
	for i := range asks {
		s.of.Tier.Home.Notes.(*region).note(s.of, &asks[i], &grants[i])
	}
}

// note follows what a replica gave back to the reserve, and was granted of it.
func (h *region) note(l *life, a *engine.Ask, g *lease.Grant) {
	name, tag, since := strings.TrimPrefix(a.Policy.Rule, reserveOf), uint32(reserveTag), limit.Micros(0)
	if rest, trickles := strings.CutPrefix(name, trickleOf); trickles {
		text := ""
		name, text, _ = strings.Cut(rest, " since ")
		micros, _ := strconv.ParseInt(text, 10, 64)
		tag, since = trickleTag, limit.Micros(micros)
	}
	ref, r := h.w.ref, h.w.rules.find(name)
	if a.Policy.Limit.Spec().Algorithm == limit.TokenBucket { // the trickle, and its leases, are named by when it began
		tag = uint32(since)
		since = trickleSince(tag, h.Clock())
	}
	key := r.counter(string(a.Key))
	back := lot{leaseID{key, a.Want.Lease ^ tag}, a.Want.Unused}
	if p := h.parts[back.leaseID]; p != nil {
		p.granted -= back.units
	}
	if back.units > 0 {
		l.hands(back)
		ref.vanished(key, back.units)
	}
	if g.Granted == 0 {
		return
	}
	ref.granted(&item{key: key, want: a.Want, grant: *g})
	id := leaseID{key, g.Lease ^ tag}
	p := h.takes(ref.account(key), id, since, a.Policy.Limit, g)
	s := stamp{charged: h.w.now(), from: h.w.now(), until: h.w.now() + limit.Micros(g.TTL)*limit.Millisecond}
	if since != 0 || inWindows(r.Limit) {
		s.until = min(s.until, h.virtual(p.begin)+p.window.Period+limit.Millisecond-1)
	}
	l.gets(lot{id, g.Granted}, s)
}

// trickleSince is when the trickle of a bucket began, by the name of its leases and a time not long after that: the
// millisecond, since a name has no more, and not what the time has beyond one.
func trickleSince(name uint32, at limit.Micros) limit.Micros {
	now := at / limit.Millisecond
	return (now + limit.Micros(int32(name^trickleTag-uint32(now)))) * limit.Millisecond
}

// takes follows units that the region took in a window which was charged, or of a bucket since its trickle began; since 0: they
// are of the reserve. l is the limit by which it counted them.
func (h *region) takes(a *account, id leaseID, since limit.Micros, l *limit.Limit, g *lease.Grant) *part {
	p, w, units := h.parts[id], reserve.WindowOf(a.rule.Spec), g.Granted
	charged := l.PeriodFromID(h.Clock(), g.Lease)
	if w.Refills {
		charged = since
	}
	if p == nil {
		p = &part{window: w}
		if p.begin = p.window.Begin(charged); w.Refills {
			p.window.Period, p.begin = limit.Day, since
		}
		p.begins = min(h.virtual(p.begin), h.w.now())
		h.parts[id] = p
	}
	if since != 0 {
		a.debts.owed += units
		a.debts.lost += units // its replicas may forget it
		h.mu.Lock()
		_, permission := h.record.Permitted(h.Clock())
		h.mu.Unlock()
		_, permitted := permission.For(w, w.Begin(charged)) // a bucket's windows of the reserve begin with the first of them
		p.debt = p.debt || !permitted
	}
	p.granted += units
	if p.debt {
		h.checkTrickle(a, p)
	} else {
		h.took += units
	}
	return p
}

// checkTrickle checks that a region takes of a window that it has renounced no more than its share of the rate for the
// time in which its wants were not decided.
func (h *region) checkTrickle(a *account, p *part) {
	cut := limit.Micros(0)
	over := func(from, until limit.Micros) {
		cut += max(0, min(until, p.begins+p.window.Period)-max(from, p.begins))
	}
	h.mu.Lock()
	for _, o := range h.outages {
		over(o.from, o.until)
	}
	if h.undecided != 0 {
		over(h.undecided, h.w.now())
	}
	most := h.most
	h.mu.Unlock()
	bound := a.rule.Spec.Count * int64(most) * int64(cut) / (int64(reserve.Whole) * int64(a.rule.Spec.Period))
	if p.granted > bound {
		h.w.ref.fail(7, "%v: %s took %d without the aggregator in a window that it had renounced, at most %d by its share of the rate", a.key, h.Name, p.granted, bound)
	}
}

// counts counts units of a lease that were admitted, in the window of its name. What a region admits in windows that
// it had renounced is counted apart, see [region.checkTrickle].
func (ref *referee) counts(b *book, l uint32, units int64) {
	a := b.account
	if p := b.part(l); p != nil {
		if p.debt {
			a.trickled += units
			return
		}
		l = a.rule.Limit.PeriodID(p.begin)
	}
	a.periods[l] += units
	ref.checkPeriod(a, l)
}

// apart is what may be admitted beyond a limit that does not count by windows of a clock, because clocks of regions are
// not the aggregator's: its share of what comes in meanwhile, or of a log its share of the limit.
func (ref *referee) apart(a *account) (units int64) {
	s := a.rule.Limit.Spec()
	for _, h := range ref.w.regions {
		if h.apart > 0 && !inWindows(a.rule.Limit) {
			units += min(h.most.Of(s.Count)*int64(1+h.apart/s.Period), h.took)
		}
	}
	return units
}

// part is what the region of a PoP took by itself, that a lease is of; nil: the aggregator granted it.
func (b *book) part(l uint32) *part {
	if h := b.p.Link.Granter.Home; h != nil {
		return h.Notes.(*region).parts[leaseID{b.key, l}]
	}
	return nil
}

// again notes that a region may use its reserve of a window once more, since its store has lost how much it used.
func (ref *referee) again(key counterKey, p *part, share reserve.PerMille) {
	a := ref.account(key)
	units := share.Of(max(a.rule.Spec.Count, a.rule.Spec.Burst))
	if inWindows(a.rule.Limit) {
		a.lost[a.rule.Limit.PeriodID(p.begin)] += units
	} else {
		a.extra += units
	}
}
