package e2e

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/stack"
)

const memoryRules = `
rules:
  - { name: per-user, match: { path: /per-user }, timeout: 1s, key: [ { header: x-user } ], limit: 5/300d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
`

// Memory is bounded, whatever clients send: one PoP and one region see it all.
//
// A new key with three of four requests fills the table of the PoP and the store of the
// region many times over. Neither grows past its bound, no request leaves anything behind,
// and a key that was spent before stays spent: only what equals a fresh counter is forgotten.
//
// The small form has a small table and a small store: 2,000 and 10,000 keys, which
// 90,000 requests overflow as often as 3 million do the real ones.
func TestMemory(t *testing.T) {
	t.Parallel()
	cfg := stack.Config{
		PoPs:         1,
		Rules:        memoryRules,
		Plugin:       map[string]any{"table_pages": 64},
		RegionConfig: "max_keys: 10000\n",
	}
	if !testing.Short() {
		cfg.Plugin, cfg.RegionConfig = nil, ""
	}
	s := start(t, cfg)
	requests, rounds := orLong(int64(90_000), 3_000_000), orLong(int64(5), 20)
	p := s.PoPs[0]
	spend := func() int64 {
		return offer(t, loadOf(s, "/per-user", "spent", 200)).OK()
	}
	spends(t, 5, spend)

	var popFull, regionFull int64 // memory when both had overflowed
	for round := range rounds {
		tally := offer(t, drive.Load{
			Addrs: s.Addrs(),
			Conns: 32,
			Count: requests / rounds,
			Request: func(b []byte, n int64) []byte {
				user := "spent"
				if n%4 > 0 {
					user = fmt.Sprint("round-", round, "-", n)
				}
				return fmt.Appendf(b, "GET /per-user HTTP/1.1\r\nhost: pop\r\nx-user: %s\r\n\r\n", user)
			},
		})
		t.Logf("%d requests at %.0f per second, rejected %d; PoP %d MB, region %d MB", tally.Sent(), tally.PerSecond(),
			tally.Status[429], p.Memory()>>20, s.Region.Memory()>>20)
		if n := spend(); n > 0 {
			t.Errorf("round %d: the spent key was admitted %d times", round, n)
		}
		if round == rounds/2 {
			popFull, regionFull = p.Memory(), s.Region.Memory()
		}
	}
	// Afterwards nothing may grow with the number of requests. What later rounds bring
	// would take some 330 bytes for each of 36,000, if it were kept, 12 MB;
	// allocators and collectors keep something too, and stop.
	const slack = 12 << 20
	if grown := p.Memory() - popFull; grown > slack {
		t.Errorf("the PoP grew by %d MB after its table was full", grown>>20)
	}
	if grown := s.Region.Memory() - regionFull; grown > slack {
		t.Errorf("the region grew by %d MB after its store was full", grown>>20)
	}
	if n := s.Region.Metrics()["weir_store_keys"]; n > 1.01*orLong(10_000.0, 1_000_000) { // each shard rounds up
		t.Errorf("the region holds %v keys, more than max_keys", n)
	}
}
