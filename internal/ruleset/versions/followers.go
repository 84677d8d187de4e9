package versions

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/rule"
)

const (
	// inForceTime is how long a version may take to be in force everywhere. It takes a second
	// where Consul answers.
	inForceTime = 10 * time.Second
	// lookEvery is the time between two looks whether it is.
	lookEvery = 200 * time.Millisecond
)

// followers are the programs in all datacenters that take their rules from Consul, as they have
// registered there.
func (s *Store) followers(ctx context.Context) (all []consul.Registered, err error) {
	if s.agent == nil {
		return nil, nil
	}
	found, err := s.agent.Registered(ctx, "weir-global", "weir-regional-")
	for _, f := range found {
		if f.Follows {
			f.Revision = rule.Number(f.Revision)
			all = append(all, f)
		}
	}
	return all, err
}

// InForce waits, for ten seconds at most, until a version is in force in all programs that take
// their rules from Consul and pass their checks. It returns those in which it is not. An error means
// that there may be others.
func (s *Store) InForce(ctx context.Context, v Version) (behind []consul.Registered, err error) {
	ctx, cancel := context.WithTimeout(ctx, inForceTime)
	defer cancel()
	for {
		followers, err := s.followers(ctx)
		if ctx.Err() != nil && len(behind) > 0 {
			return behind, nil // as of the look before
		}
		behind = slices.DeleteFunc(followers, func(f consul.Registered) bool {
			return !f.Passes || f.Revision >= v.Revision && !Ahead(f.Revision, time.Now())
		})
		if len(behind) == 0 {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return behind, nil
		case <-time.After(lookEvery):
		}
	}
}
