package engine

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/lease"
)

// giveBackTime bounds giving back. A lease cache needs none of it.
const giveBackTime = 100 * time.Millisecond

// Selection is those asks of a call that one store gets. The zero value is empty.
type Selection struct {
	Asks   []Ask
	At     []int         // of each ask, in the call
	Grants []lease.Grant // of each ask, after Acquire
}

// Add adds ask i of a call.
func (s *Selection) Add(asks []Ask, i int) {
	s.Asks, s.At = append(s.Asks, asks[i]), append(s.At, i)
}

// Acquire asks the store; an empty selection asks nothing.
func (s *Selection) Acquire(ctx context.Context, from Store) {
	if len(s.Asks) > 0 {
		s.Grants = make([]lease.Grant, len(s.Asks))
		from.Acquire(ctx, s.Asks, s.Grants)
	}
}

// Answer puts the grants to those of the call.
func (s *Selection) Answer(grants []lease.Grant) {
	for i, at := range s.At {
		grants[at] = s.Grants[i]
	}
}

// IsDenied reports whether a need of a group is denied.
func IsDenied(group []Ask, grants []lease.Grant) bool {
	for i := range group {
		if group[i].Want.Need > 0 && grants[i].Status == lease.Denied {
			return true
		}
	}
	return false
}

// UndoDenied returns to a store what the members of a denied group were granted.
func UndoDenied(ctx context.Context, s Store, group []Ask, grants []lease.Grant) {
	if !IsDenied(group, grants) {
		return
	}
	var back []Ask
	for i := range group {
		a, g := &group[i], &grants[i]
		if g.Status == lease.OK && g.Granted > a.Want.Holding {
			b := a.GiveBack(g)
			b.Want.Want = a.Want.Holding // which a holder of slots keeps
			back = append(back, b)
			*g = g.Keep(a.Want.Holding)
		}
	}
	SendBack(ctx, s, back)
}

// SendBack gives asks that give back to the store, also if the client no longer waits.
func SendBack(ctx context.Context, s Store, back []Ask) {
	if len(back) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		s.Acquire(ctx, back, make([]lease.Grant, len(back)))
	}
}
