package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const tableRules = `
rules:
  - name: owed
    match: { path: /owed }
    timeout: 1s
    key: [ { header: x-user }, path ]
    limit: 20/1d
    algorithm: fixed_window
    on_failure: allow
  - name: once
    match: { path: /once }
    timeout: 1s
    key: [ { header: x-user } ]
    limit: 1/1d
    algorithm: fixed_window
    on_failure: allow
  - name: here
    match: { path: /here }
    key: [ { header: x-user } ]
    limit: 5/1d
    algorithm: fixed_window
    scope: pop
`

// The table of a PoP, with 4,096 places: what is admitted while the region hangs is told
// to it afterwards, whatever the length of the keys, and then the PoP is silent; keys that
// somebody spent on purpose leave no other without a limit.
func TestTable(t *testing.T) {
	s := stack.Start(t, stack.Config{Rules: tableRules, Plugin: map[string]any{"table_pages": 128}})
	awaitRules(t, s)
	first, second := s.PoPs[0], s.PoPs[1]
	wants := func() int64 { return first.Stats("wasmcustom.weir.wants$")["wasmcustom.weir.wants"] }

	t.Run("debts of long keys", func(t *testing.T) {
		const keys, limit = 300, 20
		user := "user-" + strings.Repeat("x", 150)
		each := func(p *stack.PoP, n int64) drive.Load {
			return drive.Load{Addrs: []string{p.Addr}, Request: drive.GetEach("/owed", "x-user", user), Count: n}
		}
		s.Region.Pause()
		var admitted int64
		for range limit {
			admitted += offer(t, each(first, keys)).OK()
		}
		s.Region.Resume()
		if admitted != keys*limit {
			t.Errorf("admitted %d while the region hung, want all %d", admitted, keys*limit)
		}
		before := int64(-1)
		proc.Eventually(t, 60*time.Second, "the PoP tells its debts and is silent", func() bool {
			now := wants()
			silent := now == before
			before = now
			if !silent {
				time.Sleep(8 * time.Second) // the scan has seen each of 128 pages in 7
			}
			return silent
		})
		if n := offer(t, each(second, keys)).OK(); n > 0 {
			t.Errorf("another PoP admits %d of %d requests with keys that are spent", n, keys)
		}
	})
	t.Run("spent keys", func(t *testing.T) {
		offer(t, drive.Load{Addrs: []string{first.Addr}, Request: drive.GetEach("/once", "x-user", "spent-"), Count: 6500})
		if n := offer(t, drive.Load{Addrs: []string{first.Addr}, Request: drive.GetEach("/once", "x-user", "spent-"), Count: 6500}).OK(); n > 0 {
			t.Errorf("%d of 6500 spent keys were admitted again", n)
		}
		var admitted int64
		for range 8 {
			admitted += offer(t, drive.Load{Addrs: []string{first.Addr}, Request: drive.GetEach("/here", "x-user", "new-"), Count: 100}).OK()
		}
		if admitted != 500 {
			t.Errorf("100 new keys were admitted %d times, want 5 times each", admitted)
		}
		for name, n := range first.Stats("table_full") {
			if n > 0 {
				t.Errorf("%s is %d", name, n)
			}
		}
	})
}
