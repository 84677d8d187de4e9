package sim

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
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
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte(
		"rules: [{ name: failures, key: [{ header: x-user }], count: { status: [401] }, on_limit: { block: 10m }, "+fields+" }]\n")))(t)
	c := world.Config{
		Seed: 1, Rules: set.Dated(1), Start: 20_000 * limit.Day, Workers: 2, PagesLog2: 6, Depth: 1, Observer: unobserved{},
		Net:           world.Net{Delay: limit.Millisecond / 2, LoseCall: loss, LoseReply: loss},
		AggregatorNet: world.Net{Delay: 30 * limit.Millisecond, LoseCall: loss / 10, LoseReply: loss / 10},
	}
	scope, pops := set.Rule(0).Scope, 4
	for i := range pops {
		region := "r0"
		if scope == rule.ScopeGlobal {
			region = fmt.Sprint("r", i%2)
		}
		c.PoPs = append(c.PoPs, world.PoPConfig{Name: fmt.Sprint("p", i), Region: region})
	}
	if scope == rule.ScopeGlobal {
		c.Regions = []string{"r0", "r1"}
	}
	counters := 1
	if scope == rule.ScopePoP {
		counters = pops
	}
	blocked := map[int]limit.Micros{} // since when, by counter
	ended := 0
	fatal.If(t, world.Play(c, func(w *world.World) error {
		if loss > 0 {
			isolateEach(w)
		}
		request := func(user string, at limit.Micros, pop, status int, lasts limit.Micros, decided func(*world.Request)) {
			w.After(at, func() {
				w.PoPs[pop].Request(&world.Request{
					Fill: func(in *rule.Inputs, q *rule.Request) {
						q.Reset(in)
						if i := in.Header("x-user"); i >= 0 {
							q.Headers[i] = rule.Value{Text: user, Present: true}
						}
					},
					Lasts: lasts, Response: settle.Response{Upstream: true, Status: status, GRPCStatus: settle.NoGRPCStatus}, Decided: decided,
				})
			})
		}
		for at := attackAt; at < attackAt+2*blockFor; at += 50 * limit.Millisecond {
			pop := w.Rand.IntN(pops)
			request("eve", at, pop, 401, limit.Micros(w.Rand.Int64N(int64(20*limit.Millisecond))), func(r *world.Request) {
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
			})
		}
		for at := attackAt; at < attackAt+blockFor; at += limit.Second {
			request("ann", at, w.Rand.IntN(pops), 200, 20*limit.Second, func(r *world.Request) {
				if r.Edge.Blocked || loss == 0 && r.Edge.Outcome == edge.Deny && r.Edge.RetryAfter > 1000 {
					t.Errorf("a client without failures: blocked %v, retry after %d ms", r.Edge.Blocked, r.Edge.RetryAfter)
				}
			})
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
