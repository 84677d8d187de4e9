package e2e

import (
	"fmt"
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

// startTable starts PoPs whose table has 4,096 places.
func startTable(t *testing.T, pops int) *stack.Stack {
	t.Helper()
	s := stack.Start(t, stack.Config{PoPs: pops, Rules: tableRules, Plugin: map[string]any{"table_pages": 128}})
	awaitRules(t, s)
	return s
}

// What a PoP admits while the region hangs it tells afterwards, whatever the length of
// the keys, and then it is silent.
func TestDebtsOfLongKeys(t *testing.T) {
	t.Parallel()
	s := startTable(t, 2)
	first, second := s.PoPs[0], s.PoPs[1]
	const keys, limit = 300, 20
	user := "user-" + strings.Repeat("x", 150)
	offerEach := func(p *stack.PoP) int64 {
		return offer(t, drive.Load{Addrs: []string{p.Addr}, Request: drive.GetEach("/owed", "x-user", user), Count: keys}).OK()
	}
	s.Region.Pause()
	var admitted int64
	for range limit {
		admitted += offerEach(first)
	}
	s.Region.Resume()
	if admitted != keys*limit {
		t.Errorf("admitted %d while the region hung, want all %d", admitted, keys*limit)
	}
	last, since := int64(-1), time.Now()
	proc.Eventually(t, 2*time.Minute, "the PoP tells its debts and is silent", func() bool {
		time.Sleep(200 * time.Millisecond)
		if now := first.Stats("wasmcustom.weir.wants$")["wasmcustom.weir.wants"]; now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 10*time.Second // the scan has seen each of 128 pages in 7
	})
	n := offerEach(second)
	proc.Await(t, 10*time.Second, "another PoP admits no spent key, unless the region is late", func() string {
		const stat = "wasmcustom.weir.decisions.rule.owed.decision.allowed.reason.on_failure"
		if late := second.Stats(stat)[stat]; n > late {
			return fmt.Sprintf("it admitted %d of %d, and %d for want of an answer", n, keys, late)
		}
		return ""
	})
}

// Keys that somebody spent on purpose leave no other without a limit.
func TestSpentKeysInTheTable(t *testing.T) {
	s := startTable(t, 1)
	once := drive.Load{Addrs: s.Addrs(), Request: drive.GetEach("/once", "x-user", "spent-"), Count: 6500}
	offer(t, once)
	if n := offer(t, once).OK(); n > 0 {
		t.Errorf("%d of 6500 spent keys were admitted again", n)
	}
	var admitted int64
	for range 8 {
		admitted += offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.GetEach("/here", "x-user", "new-"), Count: 100}).OK()
	}
	if admitted != 500 {
		t.Errorf("100 new keys were admitted %d times, want 5 times each", admitted)
	}
	for name, n := range s.PoPs[0].Stats("table_full") {
		if n > 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
}
