package sim

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
)

// uplink is the store of a lease cache: the tier above, over a link. What is lost on the
// way is unavailable when the time of the caller is over; nothing is sent twice, as a
// [engine.Store] promises.
type uplink struct {
	*link
	of *life
}

func (u *uplink) Epoch() uint64 { return u.above.store.Epoch() }

// Acquire is called by goroutines of the cache.
func (u *uplink) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	answer := make(chan []item, 1)
	c := u.call(copied(asks))
	c.arrive = func(c *call) {
		if u.of.over {
			u.w.ref.lostReply(c)
			return
		}
		u.of.receives(c)
		answer <- c.items
	}
	want := asks[0].Want
	u.w.mail.post(post{name: "link " + u.from, key: keyOf(&asks[0]).String(), n: uint64(want.Want), m: uint64(want.Unused), do: func() { u.of.sends(c) }})
	select {
	case items := <-answer:
		for i := range grants {
			grants[i] = items[i].grant
		}
		return
	case <-ctx.Done():
	}
	for i := range grants {
		grants[i] = lease.Grant{Status: lease.Unavailable}
	}
}

// call is a call of the store above.
func (u *uplink) call(asks []engine.Ask) *call {
	c := &call{link: u.link, ctx: context.Background()}
	for i := range asks {
		asks[i].Region = u.of.tier.region
		c.items = append(c.items, itemOf(&asks[i]))
	}
	c.serve = func(c *call, by *life) bool {
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		grants := make([]lease.Grant, len(asks))
		by.store.Acquire(ctx, asks, grants)
		for i := range grants {
			c.items[i].grant = grants[i]
		}
		return true
	}
	return c
}

// copied are asks that outlive the call that they came with.
func copied(asks []engine.Ask) []engine.Ask {
	asks = slices.Clone(asks)
	for i := range asks {
		asks[i].Key = slices.Clone(asks[i].Key)
	}
	return asks
}
