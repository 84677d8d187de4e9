package engine

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
)

// scopes is a store of two: the region's own, and that of all regions.
type scopes struct{ region, global Store }

// ByScope makes a store that asks, for policies of scope global, the store of all regions,
// and for the others the region's own.
//
// A request with rules of both scopes is granted all or nothing. Its global rules are asked
// first: they are mostly decided from memory, and if one of them is denied, the region's are
// not charged. After half of the caller's time the region's are asked anyway, so that what
// is far away does not leave them undecided. What is charged to a request that is denied
// later goes back.
func ByScope(region, global Store) Store { return &scopes{region, global} }

// Acquire asks both stores at a time.
func (s *scopes) Acquire(ctx context.Context, asks []Ask, grants []lease.Grant) {
	global := 0
	for i := range asks {
		if asks[i].global() {
			global++
		}
	}
	switch global {
	case 0:
		s.region.Acquire(ctx, asks, grants)
	case len(asks):
		s.global.Acquire(ctx, asks, grants)
	default:
		s.split(ctx, asks, grants)
	}
}

// fallbacks decide while the stores of [ByScope] do not answer.
type fallbacks struct{ region, global Fallback }

// FallByScope makes a fallback of those of the region's own store and of the store of all
// regions; nil: it has no memory.
func FallByScope(region, global Fallback) Fallback {
	return &fallbacks{orForgetful(region), orForgetful(global)}
}

func (f *fallbacks) of(a *Ask) Fallback {
	if a.global() {
		return f.global
	}
	return f.region
}

func (f *fallbacks) Fall(a *Ask, holders int) Judgment { return f.of(a).Fall(a, holders) }
func (f *fallbacks) Refund(a *Ask, j *Judgment)        { f.of(a).Refund(a, j) }

func (a *Ask) global() bool { return a.Policy.Scope == rule.ScopeGlobal }

// split asks both stores for the asks of one call.
func (s *scopes) split(ctx context.Context, asks []Ask, grants []lease.Grant) {
	clear(grants)                         // a denial of a call before would look like one of this call
	var global, regional, mixed Selection // mixed are the region's asks of groups with both scopes
	var both [][2]int                     // these groups, from ask to ask
	for first := 0; first < len(asks); {
		next := first + GroupLen(asks[first:])
		local := &regional
		if isMixed(asks[first:next]) {
			local, both = &mixed, append(both, [2]int{first, next})
		}
		for i := first; i < next; i++ {
			if asks[i].global() {
				global.Add(asks, i)
			} else {
				local.Add(asks, i)
			}
		}
		first = next
	}
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		global.Acquire(ctx, s.global)
	}()
	begin := time.Now()
	regional.Acquire(ctx, s.region)
	regional.Answer(grants)
	if len(both) > 0 {
		if awaitHalf(ctx, begin, decided) {
			global.Answer(grants)
			mixed.onlyReport(asks, grants, both)
		}
		mixed.Acquire(ctx, s.region)
		mixed.Answer(grants)
	}
	<-decided
	global.Answer(grants)
	for _, g := range both {
		UndoDenied(ctx, s, asks[g[0]:g[1]], grants[g[0]:g[1]])
	}
}

func isMixed(group []Ask) bool {
	for i := range group {
		if group[i].global() != group[0].global() {
			return true
		}
	}
	return false
}

// awaitHalf reports whether the asks of global limits are decided, waiting until half of the caller's
// time is over.
func awaitHalf(ctx context.Context, begin time.Time, decided <-chan struct{}) bool {
	ends, ok := ctx.Deadline()
	if !ok {
		ends = begin.Add(2 * DefaultPatience)
	}
	half := time.NewTimer(time.Until(begin.Add(ends.Sub(begin) / 2)))
	defer half.Stop()
	select {
	case <-decided:
		return true
	case <-half.C:
		return false
	}
}

// onlyReport leaves asks of groups that are denied already without what they ask for: they only
// give back and report.
func (s *Selection) onlyReport(asks []Ask, grants []lease.Grant, groups [][2]int) {
	i := 0
	for _, g := range groups {
		denied := IsDenied(asks[g[0]:g[1]], grants[g[0]:g[1]])
		for ; i < len(s.At) && s.At[i] < g[1]; i++ {
			if w := &s.Asks[i].Want; denied {
				w.Need, w.Waiting, w.Want = 0, 0, w.Holding
			}
		}
	}
}
