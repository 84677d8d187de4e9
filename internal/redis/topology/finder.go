package topology

import (
	"context"
	"errors"
	"fmt"
	"net"

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
	return &cluster{config: c, orSingle: c.Mode == Auto && len(c.Addrs) == 1}
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		addr string
		err  error
	}
	answers := make(chan answer, len(s.config.Addrs))
	for _, addr := range s.config.Addrs {
		go func() {
			master, err := s.ask(ctx, addr)
			answers <- answer{master, err}
		}()
	}
	votes := map[string]int{}
	var failure error
	for range s.config.Addrs {
		a := <-answers
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
		return nil, failure
	}
	s.last = master
	return whole(master), nil
}

// ask reads the master from one sentinel.
func (s *sentinels) ask(ctx context.Context, addr string) (string, error) {
	o := s.config.options(addr, 1)
	o.CredentialsProviderContext = credentials(s.config.SentinelUsername, s.config.SentinelPassword)
	client := redis.NewClient(o)
	defer closeClient(client)
	parts, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.config.SentinelMaster).StringSlice()
	switch {
	case errors.Is(err, redis.Nil):
		return "", fmt.Errorf("redis sentinel %s: no master named %q is monitored there", addr, s.config.SentinelMaster)
	case err != nil:
		return "", fmt.Errorf("redis sentinel %s: %w", addr, err)
	case len(parts) == 2:
		if master := fullAddress(net.JoinHostPort(parts[0], parts[1]), addr); master != "" {
			return master, nil
		}
	}
	return "", fmt.Errorf("redis sentinel %s: master %q has the address %q, want host and port", addr, s.config.SentinelMaster, parts)
}
