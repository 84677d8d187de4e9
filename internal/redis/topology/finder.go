package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// finder finds the masters. known are addresses that it found before and that may
// answer.
type finder interface {
	find(ctx context.Context, known []string) (*layout, error)
}

func newFinder(c *Config) finder {
	switch {
	case c.Mode == Single:
		return single(c.Addrs[0])
	case c.Mode == Sentinel:
		return &sentinels{config: c}
	}
	return &cluster{config: c, orSingle: c.Mode == auto && len(c.Addrs) == 1}
}

// layout lists the masters and their hash slots, as a finder read them.
type layout struct {
	ranges []slotRange
	known  []string // all addresses, replicas included, for the next look-up
	doubt  bool     // the source of this layout reaches no majority: look up again soon
}

// slotRange is a range of hash slots that a master serves, first and last included.
type slotRange struct {
	first, last int
	addr        string
}

// whole returns the layout of a single master.
func whole(addr string) *layout {
	return &layout{ranges: []slotRange{{0, slots - 1, addr}}}
}

// single is one server: there is nothing to look up.
type single string

func (s single) find(context.Context, []string) (*layout, error) { return whole(string(s)), nil }

// sentinels reads the master from Redis Sentinel.
type sentinels struct {
	config *Config
	last   string // the master at the last look-up
}

// find asks all sentinels and returns the master that most of them name; of two that are
// named equally often, the one of the last look-up.
func (s *sentinels) find(ctx context.Context, _ []string) (*layout, error) {
	p := newPoll(ctx, s.ask)
	defer p.cancel()
	p.put(s.config.Addrs)
	votes := map[string]int{}
	var failure error
	for a, ok := p.next(nil); ok; a, ok = p.next(nil) {
		if a.err != nil {
			failure = a.err
			continue
		}
		if votes[a.addr]++; votes[a.addr] > len(s.config.Addrs)/2 {
			break // the other answers change nothing, and one of them may not come
		}
	}
	master, most := "", 0
	for addr, n := range votes {
		if n > most || n == most && addr == s.last {
			master, most = addr, n
		}
	}
	if most == 0 {
		return nil, cmp.Or(failure, ctx.Err())
	}
	s.last = master
	return whole(master), nil
}

// vote is the master that a sentinel names.
type vote struct {
	addr string
	err  error
}

// ask reads the master from one sentinel.
func (s *sentinels) ask(ctx context.Context, addr string) vote {
	o := s.config.options(addr, 1)
	o.CredentialsProviderContext = credentials(s.config.SentinelUsername, s.config.SentinelPassword)
	client := redis.NewClient(o)
	defer closeClient(client)
	parts, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.config.SentinelMaster).StringSlice()
	switch {
	case errors.Is(err, redis.Nil):
		return vote{err: fmt.Errorf("redis sentinel %s: no master named %q is monitored there", addr, s.config.SentinelMaster)}
	case err != nil:
		return vote{err: fmt.Errorf("redis sentinel %s: %w", addr, err)}
	case len(parts) == 2:
		if master := fullAddress(net.JoinHostPort(parts[0], parts[1]), addr); master != "" {
			return vote{addr: master}
		}
	}
	return vote{err: fmt.Errorf("redis sentinel %s: master %q has the address %q, want host and port", addr, s.config.SentinelMaster, parts)}
}

// poll asks servers at the same time. It belongs to one goroutine, which cancels it to leave
// without the answers that are late.
type poll[A any] struct {
	ctx     context.Context
	cancel  context.CancelFunc
	ask     func(ctx context.Context, addr string) A
	answers chan A
	asked   map[string]bool
	waiting int // answers that are missing
}

func newPoll[A any](ctx context.Context, ask func(context.Context, string) A) *poll[A] {
	p := &poll[A]{ask: ask, answers: make(chan A), asked: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// put asks those of addrs that have not been asked.
func (p *poll[A]) put(addrs []string) {
	for _, addr := range addrs {
		if p.asked[addr] {
			continue
		}
		p.asked[addr] = true
		p.waiting++
		go func() {
			a := p.ask(p.ctx, addr)
			select {
			case p.answers <- a:
			case <-p.ctx.Done():
			}
		}()
	}
}

// next waits for one more answer; ok is false if none is missing, or the time is over.
func (p *poll[A]) next(over <-chan time.Time) (a A, ok bool) {
	if p.waiting == 0 {
		return a, false
	}
	select {
	case a = <-p.answers:
		p.waiting--
		return a, true
	case <-over:
	case <-p.ctx.Done():
	}
	return a, false
}
