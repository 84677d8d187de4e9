package aggregator

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

const (
	// doubledAfter is for how long two stores call beside each other in the name of one region before it
	// is reported. A process that takes the place of another one, with its counters in memory, calls
	// beside it while that drains; replicas on one Redis go over to a new identity within a second.
	doubledAfter = 30 * limit.Second
	// storeGone is how long after its last call a store counts as gone. Replicas call twice a second.
	storeGone = 10 * limit.Second
	// mostStores bounds the stores of a region that are kept, each some 100 bytes. A further one is
	// not noted until one of these is gone, so that nobody drives them out with invented ones.
	mostStores = 4
	// doubledQuiet is the time between two lines of the log on one region.
	doubledQuiet = time.Minute
)

// doubledRemedy is what a person does about a region of which there are two.
const doubledRemedy = "give each region a --region of its own, with its certificate; replicas of one region need one store, with --redis"

// regionStore is a store whose replicas call in the name of a region.
type regionStore struct {
	identity    uint64
	holder      limiter.HolderID // of the last call
	from        string
	first, last limit.Micros // calls without a pause of storeGone between
}

// String is for the log.
func (s *regionStore) String() string {
	return fmt.Sprintf("%016x of replica %x at %s", s.identity, s.holder, s.from)
}

// regionStores are those of one region. There is one, unless two regions have one name, or replicas
// with counters in memory are taken for one region: each then has the whole static share.
type regionStores []regionStore

// called notes a call. One that states no store is of an older release, or of a replica that cannot
// read the identity just now.
func (ss *regionStores) called(c *limiter.RegionCall, now limit.Micros) {
	if c.Store == 0 {
		return
	}
	at := -1 // of this store, else of one that is gone
	for i := range *ss {
		one := &(*ss)[i]
		if one.identity == c.Store {
			at = i
			break
		}
		if now-one.last >= storeGone {
			at = i
		}
	}
	if at < 0 {
		if len(*ss) >= mostStores {
			return
		}
		*ss = append(*ss, regionStore{})
		at = len(*ss) - 1
	}
	one := &(*ss)[at]
	if one.identity != c.Store || now-one.last >= storeGone {
		one.identity, one.first = c.Store, now
	}
	one.holder, one.from, one.last = c.Holder, c.From, now
}

// doubled returns two stores that have called beside each other for doubledAfter, and still do; nil: there
// are none.
func (ss regionStores) doubled(now limit.Micros) (one, other *regionStore) {
	for i := range ss {
		for j := range i {
			one, other = &ss[j], &ss[i]
			until := min(one.last, other.last)
			if now-until < storeGone && until-max(one.first, other.first) >= doubledAfter {
				return one, other
			}
		}
	}
	return nil, nil
}

// reportDoubled reports whether two stores call in the name of a region. The links are locked.
func (l *links) reportDoubled(name string, of *link) {
	one, other := of.stores.doubled(l.steady())
	if one == nil {
		l.doubled.WithLabelValues(name).Set(0)
		return
	}
	l.doubled.WithLabelValues(name).Set(1)
	if of.logged.Now(doubledQuiet) {
		l.log.Error("two stores call in the name of one region: each has its whole static share, and while one is connected that of the other is not withheld",
			"region", name, "store", one.String(), "other", other.String(), "remedy", doubledRemedy)
	}
}
