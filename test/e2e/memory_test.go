package e2e

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/stack"
)

const memoryRules = `
rules:
  - { name: per-user, match: { path: /per-user }, timeout: 1s, key: [ { header: x-user } ], limit: 5/300d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
  - { name: steady, match: { path: /steady }, timeout: 1s, key: [ { header: x-user } ], limit: 1000000/1s }
`

// Memory is bounded, whatever clients send: one PoP and one region see it all.
//
// The small form has a small table and a small store: 2,000 and 10,000 keys, which
// 50,000 overflow as often as 3 million do the real ones.
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
	t.Run("requests leave nothing behind", func(t *testing.T) { requestsLeaveNothingBehind(t, s) })
	t.Run("unique keys", func(t *testing.T) { uniqueKeys(t, s) })
}

// A new key with every request fills the table of the PoP and the store of the
// region many times over. Neither grows past its bound, and a key that was spent
// before stays spent: only what equals a fresh counter is forgotten.
func uniqueKeys(t *testing.T, s *stack.Stack) {
	keys, rounds := orLong(int64(50_000), 3_000_000), orLong(int64(5), 20)
	p := s.PoPs[0]
	spend := func() int64 {
		return offer(t, loadOf(s, "/per-user", "spent", 200)).OK()
	}
	spends(t, 5, spend)

	var popFull, regionFull int64 // memory when both had overflowed
	for round := range rounds {
		tally := offer(t, drive.Load{
			Addrs:   s.Addrs(),
			Conns:   32,
			Request: drive.GetEach("/per-user", "x-user", "round-"+strconv.FormatInt(round, 10)+"-"),
			Count:   keys / rounds,
		})
		t.Logf("%d keys at %.0f per second, rejected %d; PoP %d MB, region %d MB", tally.Sent(), tally.PerSecond(),
			tally.Status[429], p.Memory()>>20, s.Region.Memory()>>20)
		if n := spend(); n > 0 {
			t.Errorf("round %d: the spent key was admitted %d times", round, n)
		}
		if round == rounds/2 {
			popFull, regionFull = p.Memory(), s.Region.Memory()
		}
	}
	// Afterwards nothing may grow with the number of keys. What later rounds bring
	// would take some 500 bytes for each of 30,000 keys, if it were kept, 15 MB;
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

func requestsLeaveNothingBehind(t *testing.T, s *stack.Stack) {
	requests := orLong(int64(40_000), 2_000_000)
	p := s.PoPs[0]
	round := func() (memory int64) {
		offer(t, drive.Load{
			Addrs: s.Addrs(),
			Request: func(buf []byte, n int64) []byte { // values differ, keys are few
				path := "/steady"
				if n%4 == 0 {
					path = "/per-user" // rejected
				}
				buf = append(buf, "GET "+path+" HTTP/1.1\r\nhost: pop\r\nx-user: "...)
				buf = append(buf, byte('a'+n%16))
				buf = append(buf, "\r\nx-trace: "...)
				buf = time.Unix(0, n).AppendFormat(buf, time.RFC3339Nano)
				return append(buf, "\r\n\r\n"...)
			},
			Count: requests / 4,
		})
		time.Sleep(300 * time.Millisecond)
		return p.Memory()
	}
	first := round() // buffers, heaps and caches reach their size
	var last int64
	for range 3 {
		last = round()
		t.Logf("%d MB", last>>20)
	}
	// 20 bytes per request would be a leak of 1.5 MB in the small form; the
	// collector's heap is worth that much by itself, so the bound is 8 MB more.
	if grown, most := last-first, 8<<20+20*requests*3/4; grown > most {
		t.Errorf("grew by %d kB over %d requests", grown>>10, requests*3/4)
	}
}
