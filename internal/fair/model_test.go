package fair_test

import (
	"math/rand/v2"
	"slices"

	"github.com/weirlimit/weir/internal/fair"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/lease/relay"
	"github.com/weirlimit/weir/internal/limit"
)

// A model of regions that share one key: real relays, a real counter and real shares,
// with a steady delay between them, in steps of a millisecond.
type model struct {
	limit   *limit.Limit
	terms   lease.Terms
	equal   bool
	shares  fair.Shares
	counter granter.Counter
	delay   lease.Millis // one way
	now     lease.Millis
	random  *rand.Rand
	regions []*region
}

// region is one holder and those who ask it.
type region struct {
	id       uint64
	rate     func(now lease.Millis) float64 // requests per second
	due      float64
	relay    relay.Relay
	waiting  int
	renews   lease.Millis // when it looks again whether its lease lasts
	calls    []call
	admitted map[lease.Millis]int // by second
}

type call struct {
	want          lease.Want
	queue         []lease.Want
	grant         lease.Grant
	sent, arrives lease.Millis
	replied       bool
}

func newModel(spec limit.Spec, equal bool, delay lease.Millis, rates ...func(lease.Millis) float64) *model {
	l, err := limit.New(spec)
	if err != nil {
		panic(err)
	}
	m := &model{
		limit: l, terms: lease.NewTerms(l, lease.Leased, 0, 500, 0).Afar(), equal: equal, delay: delay, now: begins * 1000,
		random: rand.New(rand.NewPCG(1, 2)),
	}
	for i, rate := range rates {
		m.regions = append(m.regions, &region{id: uint64(i + 1), rate: rate, admitted: map[lease.Millis]int{}})
	}
	return m
}

func steady(rate float64) func(lease.Millis) float64 {
	return func(lease.Millis) float64 { return rate }
}

// run lets so many milliseconds pass.
func (m *model) run(span lease.Millis) {
	for end := m.now + span; m.now < end; m.now++ {
		for _, r := range m.regions {
			m.deliver(r)
			for r.due += r.rate(m.now) / 1000 * (0.5 + m.random.Float64()); r.due >= 1; r.due-- {
				m.request(r)
			}
			if m.now == r.renews {
				m.topUp(r)
			}
		}
	}
}

// one is the want of a request.
var one = lease.Want{Need: 1, Waiting: 1, Want: 1}

// request decides a request.
func (m *model) request(r *region) {
	g, verdict, back := r.relay.Acquire(&m.terms, m.now, one)
	m.giveBack(r, back)
	switch {
	case verdict == holder.Wait:
		r.waiting++
		if !r.relay.Holder.UnderWay(&m.terms, m.now) {
			m.ask(r, holder.NoAsk)
		}
		return
	case verdict == holder.Admit:
		r.admitted[m.now/1000] += int(g.Granted)
	default:
		r.relay.Holder.Deny(&m.terms, m.now, 1)
	}
	m.topUp(r)
}

// topUp asks above if the lease runs low, or later when it ends.
func (m *model) topUp(r *region) {
	if behind := r.relay.Prefetch(&m.terms, m.now); behind != holder.NoAsk {
		m.ask(r, behind)
		return
	}
	r.renews = r.relay.RenewAt(&m.terms, m.now)
}

// ask asks above, for all requests that wait.
func (m *model) ask(r *region, behind holder.Asks) {
	queue := slices.Repeat([]lease.Want{one}, r.waiting)
	r.waiting = 0
	w := r.relay.Ask(&m.terms, m.now, queue, behind)
	r.calls = append(r.calls, call{want: w, queue: queue, sent: m.now, arrives: m.now + m.delay})
}

// deliver brings calls and replies whose time has come.
func (m *model) deliver(r *region) {
	for i := 0; i < len(r.calls); i++ {
		c := &r.calls[i]
		switch {
		case m.now < c.arrives:
		case !c.replied:
			c.grant, c.replied, c.arrives = m.decide(r, c.want), true, m.now+m.delay
		default:
			m.reply(r, *c)
			r.calls = append(r.calls[:i], r.calls[i+1:]...)
			i--
		}
	}
}

func (m *model) decide(r *region, w lease.Want) lease.Grant {
	now := limit.Micros(m.now) * limit.Millisecond
	m.shares.Ask(m.limit, &m.terms, m.equal, now, r.id, m.terms.Capacity/int64(len(m.regions)), &w)
	g := m.counter.Acquire(m.limit, &m.terms, now, w)
	m.shares.Granted(m.limit, &m.terms, now, r.id, &w, &g)
	return g
}

func (m *model) reply(r *region, c call) {
	grants := make([]lease.Grant, len(c.queue))
	m.giveBack(r, r.relay.Apply(&m.terms, m.now, c.sent, c.want, c.grant, 100, c.queue, grants))
	for _, g := range grants {
		r.admitted[m.now/1000] += int(g.Granted)
	}
	for n := r.waiting; n > 0 && !r.relay.Holder.UnderWay(&m.terms, m.now); n-- {
		r.waiting--
		m.request(r)
	}
	m.topUp(r)
}

func (m *model) giveBack(r *region, p holder.Part) {
	if p.Units > 0 {
		m.decide(r, lease.Want{Unused: p.Units, Lease: p.Lease})
	}
}

// begins is the first second of a model.
const begins = 1_000_000

// between is how much each region admitted from one second to another, counted from the beginning.
func (m *model) between(from, to lease.Millis) (admitted []int) {
	for _, r := range m.regions {
		n := 0
		for s := begins + from; s < begins+to; s++ {
			n += r.admitted[s]
		}
		admitted = append(admitted, n)
	}
	return admitted
}
