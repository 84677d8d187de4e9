package sim

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

const (
	blockFor = 10 * limit.Minute
	attackAt = limit.Minute
	inForce  = limit.Second + 200*limit.Millisecond // and the longest round trip
)

// TestLockout: an attacker fails at all PoPs. A second and a round trip after the first request that is rejected because its
// failures have used up the limit, no PoP admits one, until the block is over. A client that has many requests in flight, of
// which none fails, is never blocked.
func TestLockout(t *testing.T) {
	for _, fields := range []string{
		`limit: 5/1m, scope: pop`,
		`limit: 5/1m`,
		`limit: 5/1m, algorithm: fixed_window`,
		`limit: 5/1m, algorithm: token_bucket`,
		`limit: 5/1m, scope: global`,
		`limit: 5/1m, scope: global, algorithm: sliding_window`,
	} {
		t.Run(fields, func(t *testing.T) { lockOut(t, fields, 0) })
	}
}

// TestLossesBlockNobody: a client of which no request fails is never blocked, whatever is lost, and whatever on_failure admits
// while a PoP or a region is cut off.
func TestLossesBlockNobody(t *testing.T) {
	for _, fields := range []string{`limit: 5/1m`, `limit: 5/1m, algorithm: token_bucket`, `limit: 5/1m, scope: global`} {
		t.Run(fields, func(t *testing.T) { lockOut(t, fields, 0.1) })
	}
}

// lockOut plays an attacker and a client. With losses blocks may begin late, and a PoP may not hear of them.
func lockOut(t *testing.T, fields string, loss float64) {
	const pops = 4
	regions, counters := 1, 1
	switch {
	case strings.Contains(fields, "scope: global"):
		regions = 2
	case strings.Contains(fields, "scope: pop"):
		counters = pops
	}
	c := settling(t, "{ name: failures, key: [{ header: x-user }], count: { status: [401] }, on_limit: { block: 10m }, "+fields+" }", pops, regions, loss)
	blocked := map[int]limit.Micros{} // since when, by counter
	ended := 0
	fatal.If(t, world.Play(c, func(w *world.World) error {
		if loss > 0 {
			isolateEach(w)
		}
		for at := attackAt; at < attackAt+2*blockFor; at += 50 * limit.Millisecond {
			pop := w.Rand.IntN(pops)
			eve := client{pop: pop, header: "x-user", value: "eve", lasts: limit.Micros(w.Rand.Int64N(int64(20 * limit.Millisecond))), response: settle.Response{Status: 401}}
			eve.decided = func(r *world.Request) {
				counter := pop % counters
				since, known := blocked[counter]
				now := at - since
				switch admitted := r.Edge.Outcome == edge.Admit; {
				case r.Edge.Blocked && !known:
					blocked[counter] = at
				case loss > 0:
				case admitted && known && now > inForce && now < blockFor-inForce:
					t.Errorf("PoP %d admits %d ms after the block began", pop, now/limit.Millisecond)
				case admitted && known && now >= blockFor-inForce:
					delete(blocked, counter)
					ended++
				case !admitted && known && now > blockFor+inForce && r.Edge.Blocked && now < blockFor+10*limit.Second:
					t.Errorf("PoP %d rejects %d ms after the block began", pop, now/limit.Millisecond)
				}
			}
			eve.asks(w, at)
		}
		for at := attackAt; at < attackAt+blockFor; at += limit.Second {
			ann := client{pop: w.Rand.IntN(pops), header: "x-user", value: "ann", lasts: 20 * limit.Second, response: settle.Response{Status: 200}}
			ann.decided = func(r *world.Request) {
				if r.Edge.Blocked || loss == 0 && r.Edge.Outcome == edge.Deny && r.Edge.RetryAfter > 1000 {
					t.Errorf("a client without failures: blocked %v, retry after %d ms", r.Edge.Blocked, r.Edge.RetryAfter)
				}
			}
			ann.asks(w, at)
		}
		w.Run(attackAt + 2*blockFor)
		return nil
	}))
	if loss == 0 && ended < counters {
		t.Errorf("%d blocks ended, want %d", ended, counters)
	}
}

// isolateEach cuts each PoP, and then a replica of a region, off for two minutes.
func isolateEach(w *world.World) {
	at := 2 * limit.Minute
	for _, p := range w.PoPs {
		isolate(w, at, p.Link)
		at += limit.Minute
	}
	if len(w.Replicas) > 0 {
		isolate(w, at, w.Replicas[0].Link)
	}
}
