package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// quota is a rule file with one rule, of so many units a day.
func quota(limit int) string {
	return fmt.Sprintf(`
rules:
  - { name: quota, match: { path: /quota }, timeout: 1s, key: [ { header: x-user } ], limit: %d/1d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
`, limit)
}

// Rules change under load without a request being lost, and rules that cannot be
// used change nothing: the last good ones stay, and the region reports what is wrong.
func TestRulesChangeUnderLoad(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Config{Rules: quota(10)})
	awaitRules(t, s)
	spend := func(user string) int64 {
		return offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/quota", "x-user", user), Count: 300}).OK()
	}
	spends(t, 10, func() int64 { return spend("ann") })

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	load := make(chan *drive.Result)
	go func() {
		tally, _ := drive.Run(ctx, drive.Load{
			Addrs: s.Addrs(), Request: drive.GetEach("/quota", "x-user", "load-"), PerSecond: 300,
			Until: time.Now().Add(2 * time.Minute), // if the test did not stop it
		})
		load <- tally
	}()

	t.Run("a higher limit", func(t *testing.T) {
		s.Region.SetRules(quota(30))
		// Same algorithm and period: the counter goes on. 10 + 20 = 30.
		spends(t, 20, func() int64 { return spend("ann") })
	})
	t.Run("bad rules are refused", func(t *testing.T) {
		for _, bad := range []struct{ rules, want string }{
			{"rules: [", "rules.yaml:1"},
			{strings.ReplaceAll(quota(1), "limit:", "limits:"), "rules[0].limits"},
		} {
			before := len(s.Region.Log())
			s.Region.SetRules(bad.rules)
			proc.Eventually(t, 10*time.Second, fmt.Sprintf("the region reports %q of:\n%s", bad.want, bad.rules), func() bool {
				printed := s.Region.Log()[before:]
				return strings.Contains(printed, "rules.yaml") && strings.Contains(printed, bad.want)
			})
		}
		time.Sleep(time.Second)                             // longer than PoPs take to fetch
		spends(t, 30, func() int64 { return spend("bob") }) // by the last good ones
	})
	t.Run("good rules are taken after bad ones", func(t *testing.T) {
		s.Region.SetRules(quota(5))
		proc.Eventually(t, 10*time.Second, "5/1d holds", func() bool { return spend(time.Now().String()) == 5 })
	})

	stop()
	if tally := <-load; tally.Other(200, 429) > 0 {
		t.Errorf("the load that went on meanwhile got %v, %v", tally.Status, tally.FirstError)
	}
}

// compiled returns rules as the plugin configuration takes them.
func compiled(t *testing.T, rules string) rawJSON {
	t.Helper()
	return parse(t, rules).Encode()
}

func parse(t *testing.T, rules string) *rule.Set {
	t.Helper()
	set, err := rulefile.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	return set
}
