package aggregator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

const (
	// mostReplicas bounds the replicas of a region whose last calls and replies are kept,
	// each 700 bytes. One more takes the place of one that has not called for silence.After, if there is
	// one. Otherwise signs of those that are kept show that the region is connected.
	mostReplicas = 64
	// mostShrunk bounds the policies with withheld shares that are kept.
	mostShrunk = 4096
	// beforeNext is how long before the end of a window an ask counts as one for the next window as
	// well: the store behind may decide on it so much later.
	beforeNext = limit.Second
	// returnsWithin: regions that come from another aggregator within this time of the start had called it for a
	// moment only.
	returnsWithin = limit.Minute
)

// links are the regions with static shares, and when each was silent. It is safe for concurrent use.
type links struct {
	steady func() limit.Micros
	began  limit.Micros
	log    *slog.Logger

	silent, doubled *telemetry.GaugeVec

	mu      sync.Mutex
	called  bool // by any of the regions
	judged  bool // whether the regions called another aggregator before
	newSign bool // of a region, since it was last saved
	// Of aggregators that share one store; nil: there is one.
	exchange Exchange
	writer   string // names the records of this aggregator
	shared   offset

	known  map[string]*link
	before map[string]silence.Silence // by the aggregator before this one, until the first call
	shrunk map[shrunk]*engine.Policy
}

// link is the one to a region.
type link struct {
	silence  silence.Silence
	replicas map[replicaID]*replica
	stores   regionStores
	logged   repeat.Seldom // of two stores
	resumed  bool          // the silence goes on for the aggregator before this one
	// Of an aggregator that shares what it knows:
	began     limit.Micros // when the region was new
	undecided bool         // it is silent for ever until it is known what others have found
	from      limit.Micros // nothing is withheld of what begins before: nobody knew the region then; 0: somebody did
	news      bool         // there is something that others may not know
	found     string       // the record that was found last
	silent    bool         // as was reported last
}

// replicaID is the name under which a replica numbers its calls. It takes another worker where its calls
// are dropped because of their numbers.
type replicaID struct {
	holder limiter.HolderID
	worker uint64
}

// replica is one of a region.
type replica struct {
	sent   silence.Sendings
	called limit.Micros
}

// shrunk names a policy with withheld shares.
type shrunk struct {
	policy  *engine.Policy
	regions uint64 // see [engine.Policy.Without]
}

// SetRegions replaces the regions that have static shares. A region that was not among them, and
// that neither [Store.Load] did load nor [Store.Share] finds, has silence.After to acknowledge its first reply. If it counted
// as silent at once, its share of a window that begins just after the aggregator starts would be
// withheld from all. Call it before the policies with these regions are used.
func (s *Store) SetRegions(rs rule.Regions) {
	s.reserves.setRegions(rs)
	l, known := &s.links, make(map[string]*link, len(rs))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rs {
		if known[r.Name] = l.known[r.Name]; known[r.Name] == nil {
			one := &link{replicas: map[replicaID]*replica{}}
			one.silence, one.resumed = l.before[r.Name]
			switch one.began = l.steady(); {
			case one.resumed:
			case l.exchange != nil:
				one.silence, one.undecided = silence.Resume(0, nil), true
			default:
				one.silence = silence.New(one.began, true)
			}
			known[r.Name] = one
		}
	}
	for name := range l.known {
		if known[name] == nil {
			l.silent.DeleteLabelValues(name)
			l.doubled.DeleteLabelValues(name)
		}
	}
	l.known = known
	clear(l.shrunk)
}

// Called notes a call of a region's replica, before the call is decided. It reports whether another
// store calls in the name of the region, too.
func (s *Store) Called(c limiter.RegionCall) (doubled bool) {
	l := &s.links
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.known[c.Region]
	if of == nil {
		return false
	}
	now := l.steady()
	l.begin(now, c.Answered)
	if r := of.replica(replicaID{c.Holder, c.Worker}, now); r != nil {
		if sent, ok := r.sent.Before(c.Ack); ok {
			of.silence.NoteSign(sent, now)
			l.newSign, of.news = true, true
		}
		r.sent.Note(c.Seq, now)
		r.called = now
	}
	of.stores.called(&c, now)
	one, _ := of.stores.doubled(now)
	return one != nil
}

// begin notes the first calls. If the first replica that anybody has answered was answered by another
// aggregator, and comes late, this one stood by until then. If that time counted as silence, the shares of all
// regions would be withheld until the windows end that began in it. A replica that this aggregator answered last, in
// its life before this one, has called no other: its region was silent meanwhile.
func (l *links) begin(now limit.Micros, answered limiter.Answerer) {
	if !l.called {
		l.called = true
		clear(l.before)
		for _, one := range l.known {
			if !one.resumed && !one.undecided {
				l.forget(one, now)
			}
		}
	}
	if l.judged || answered == limiter.NoAggregator {
		return
	}
	l.judged = true
	if answered == limiter.AnotherAggregator && now > l.began+returnsWithin {
		for _, one := range l.known {
			one.silence = silence.New(now, true)
		}
	}
}

// forget leaves out of account that a region may have been silent until now, of which nothing is known. Where
// aggregators share what they know, the silence still has it: it must not look as if somebody knew better.
func (l *links) forget(of *link, now limit.Micros) {
	of.undecided = false
	if l.exchange != nil {
		of.from = now + silence.After
		return
	}
	of.silence = silence.New(now, true)
}

// covers reports whether a share that began at a time is withheld.
func (l *link) covers(t limit.Micros) bool { return t >= l.from && l.silence.Covers(t) }

// lately is covers for all that began after since.
func (l *link) lately(since, now limit.Micros) bool {
	return now >= l.from && l.silence.Lately(max(since, l.from), now)
}

// replica finds a replica, or makes room for it; nil: there is none.
func (l *link) replica(id replicaID, now limit.Micros) *replica {
	r := l.replicas[id]
	if r != nil {
		return r
	}
	if len(l.replicas) >= mostReplicas {
		var oldest replicaID
		least := limit.Never
		for other, one := range l.replicas {
			if one.called < least {
				oldest, least = other, one.called
			}
		}
		if now-least < silence.After {
			return nil
		}
		delete(l.replicas, oldest)
	}
	r = new(replica)
	l.replicas[id] = r
	return r
}

// withheld is the policy by which an ask at now is decided: of a part of the limit, while
// regions with static shares are silent that may take theirs.
func (l *links) withheld(now limit.Micros, p *engine.Policy) *engine.Policy {
	if !p.HasShares() {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of, steady := shrunk{policy: p}, l.steady()
	for i, r := range p.Regions {
		if one := l.known[r.Name]; one != nil && takes(one, p, now, steady) {
			of.regions |= 1 << i
		}
	}
	if of.regions == 0 {
		return p
	}
	small := l.shrunk[of]
	if small == nil {
		small = p.Without(of.regions)
		if len(l.shrunk) >= mostShrunk {
			clear(l.shrunk)
		}
		l.shrunk[of] = small
	}
	return small
}

// takes reports whether a region may take its share of what is granted at now. steady is the
// same moment on the clock of its silence.
func takes(of *link, p *engine.Policy, now, steady limit.Micros) bool {
	spec := p.Limit.Spec()
	switch {
	case spec.Algorithm == limit.TokenBucket:
		return of.covers(steady)
	case spec.Algorithm == limit.SlidingLog, spec.Align == limit.AlignFirstRequest:
		return of.lately(steady-spec.Period, steady)
	}
	passed := now % spec.Period
	left := spec.Period - passed
	ahead := max(beforeNext, limit.Micros(p.Terms.Lead+p.Terms.Interval)*limit.Millisecond)
	return of.covers(steady-passed) || left <= ahead && of.covers(steady+left)
}

// watch reports which regions are silent, until ctx ends.
func (l *links) watch(ctx context.Context) {
	l.report()
	repeat.Every(ctx, time.Second, l.report)
}

func (l *links) report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, one := range l.known {
		silent, value := one.covers(l.steady()), 0.0
		if silent {
			value = 1
		}
		l.silent.WithLabelValues(name).Set(value)
		switch {
		case silent && !one.silent:
			l.log.Warn("a region is silent: its static shares are withheld from the others", "region", name)
		case one.silent && !silent:
			l.log.Info("a region is connected again: its static shares are withheld until the windows end that began in its silence", "region", name)
		}
		one.silent = silent
		l.reportDoubled(name, one)
	}
}
