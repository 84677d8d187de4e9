package client

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

const (
	// gatherFor is how long asks gather: little beside the way to another region, and with
	// it a replica makes at most some hundred calls a second.
	gatherFor = 5 * time.Millisecond
	// gatherMost is how many wants travel at once without waiting for more.
	gatherMost = 256
)

// parcel is the asks of one caller as they travel.
type parcel struct {
	wants   []wire.Want // their groups are those of the caller
	periods []lease.Millis
	spans   []telemetry.SpanContext // that trace the caller; nil: none
	done    chan struct{}           // closed when the parcel is answered

	mu     sync.Mutex
	grants []lease.Grant // the caller's; nil when it has gone
}

func newParcel(asks []engine.Ask, grants []lease.Grant) *parcel {
	p := &parcel{wants: make([]wire.Want, len(asks)), periods: make([]lease.Millis, len(asks)), done: make(chan struct{}), grants: grants}
	for i := range asks {
		p.wants[i] = wantOf(&asks[i])
		p.periods[i] = lease.Millis(asks[i].Policy.Limit.Spec().Period / limit.Millisecond)
	}
	return p
}

// wantOf is an ask as it travels. It keeps nothing of the caller's.
func wantOf(a *engine.Ask) wire.Want {
	p := a.Policy
	w := wire.Want{
		Rule: p.Rule, Override: p.Override, Key: rule.ShortKey(bytes.Clone(a.Key)), Group: a.Group,
		Shape: p.Limit.Fingerprint(), Want: a.Want,
	}
	w.Bound()
	return w
}

// leave notes that the caller has what it gets.
func (p *parcel) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants = nil
}

// answer hands over the grants, if the caller is still there.
func (p *parcel) answer(grants []wire.Grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.grants {
		p.grants[i] = grants[i].Bounded(p.periods[i])
	}
	close(p.done)
}

// fail leaves the asks unavailable.
func (p *parcel) fail() { close(p.done) }

// report strips what a caller asked for that has gone before the call was made. What it
// gives back and reports still travels.
func (p *parcel) report() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grants != nil {
		return
	}
	for i := range p.wants {
		w := &p.wants[i]
		w.Need, w.Waiting, w.Want.Want = 0, 0, 0
	}
}

// gather lets a parcel travel with the next call.
func (s *Store) gather(p *parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wantCount+len(p.wants) > wire.MaxWants {
		go s.send(s.takeGathered())
	}
	s.gathered = append(s.gathered, p)
	s.wantCount += len(p.wants)
	switch {
	case s.wantCount >= gatherMost:
		go s.send(s.takeGathered())
	case len(s.gathered) == 1:
		time.AfterFunc(gatherFor, s.flush)
	}
}

// flush sends what has gathered.
func (s *Store) flush() {
	s.mu.Lock()
	ps := s.takeGathered()
	s.mu.Unlock()
	if len(ps) > 0 {
		s.send(ps)
	}
}

func (s *Store) takeGathered() []*parcel {
	ps := s.gathered
	s.gathered, s.wantCount = nil, 0
	return ps
}

// send makes one call of parcels, and answers them.
func (s *Store) send(ps []*parcel) {
	wants, groups := make([]wire.Want, 0, gatherMost), uint32(0)
	var spans []telemetry.SpanContext
	for _, p := range ps {
		if p.spans != nil {
			spans = telemetry.Join(spans, p.spans)
		}
		p.report()
		wants = append(wants, p.wants...)
		groups = regroup(wants[len(wants)-len(p.wants):], groups)
	}
	grants := s.call(telemetry.WithWaiting(context.Background(), spans), wants)
	for _, p := range ps {
		if grants == nil {
			p.fail()
			continue
		}
		p.answer(grants[:len(p.wants)])
		grants = grants[len(p.wants):]
	}
}

// regroup gives the groups of a parcel numbers that no other parcel of the call has:
// numbers above last. It returns the last one given.
func regroup(wants []wire.Want, last uint32) uint32 {
	var was uint32
	for i := range wants {
		w := &wants[i]
		if w.Group == 0 {
			was = 0
			continue
		}
		if w.Group != was {
			was = w.Group
			last++
		}
		w.Group = last
	}
	return last
}
