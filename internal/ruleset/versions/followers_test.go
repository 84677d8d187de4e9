package versions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// follower registers a program that has rules of this revision.
func follower(t *testing.T, c *consultest.Agent, id string, revision uint64) {
	t.Helper()
	fatal.If(t, c.API("").Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: "weir-regional-eu", Port: 1, Check: &api.AgentServiceCheck{TTL: "1h", Status: api.HealthPassing},
		Meta: map[string]string{"rules": "consul", "rules_revision": fmt.Sprint(new(rule.Set).Numbered(revision).Revision)},
	}))
}

// A version is newer than the rules that programs have, also where these are of a store that was
// lost, or from a clock that was ahead by less than a minute. It is in force when the programs have it.
func TestNewerThanWhatProgramsHave(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	s := open(t, c.Addr)
	ahead := uint64(time.Now().Add(mostAhead - 10*time.Second).UnixMicro())
	follower(t, c, "one", ahead)
	follower(t, c, "two", 7)
	proc.Eventually(t, time.Minute, "Consul lists both within its second", func() bool { // after its start it may not
		all, err := s.followers(t.Context())
		return err == nil && len(all) == 2
	})
	v := apply(t, s, document(1), by("begin"))
	if v.Revision <= ahead {
		t.Errorf("revision %d, and a program has %d", v.Revision, ahead)
	}
	follower(t, c, "one", v.Revision)
	follower(t, c, "forged", 1<<53-1)
	isBehind := func(want string) {
		t.Helper()
		proc.Await(t, time.Minute, "not in force in:"+want, func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // Consul may answer later on a busy machine
			defer cancel()
			is := ""
			behind, err := s.InForce(ctx, v)
			for _, f := range behind {
				is += fmt.Sprint(" ", f.ID, " ", f.Revision)
			}
			if err != nil || is != want {
				return fmt.Sprint(is, err)
			}
			return ""
		})
	}
	isBehind(" forged 9007199254740991 two 7")
	if next := apply(t, s, document(2), by("go on")); next.Revision > uint64(time.Now().Add(mostAhead).UnixMicro()) {
		t.Errorf("revision %d goes on from a forged one", next.Revision)
	}
	follower(t, c, "two", v.Revision)
	follower(t, c, "forged", v.Revision)
	isBehind("")
}
