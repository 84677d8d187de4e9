package world_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/world"
)

// BenchmarkRequests has one PoP and one region take requests of 100,000 keys: each as often as others, so that nearly
// every request asks the region, and a few much more often, as clients are.
func BenchmarkRequests(b *testing.B) {
	b.Run("uniform", func(b *testing.B) { requests(b, 1) })
	b.Run("skewed", func(b *testing.B) { requests(b, 4) })
}

// requests draws the key by a power of a random number.
func requests(b *testing.B, power float64) {
	set := rules(b, "rules: [ { name: api, match: { path: { prefix: /api } }, key: [client_ip], limit: 10/1m, algorithm: fixed_window } ]")
	err := world.Play(world.Config{Rules: set, Steady: true, Net: world.Net{Delay: limit.Millisecond}, PoPs: []world.PoPConfig{{Name: "fra"}}}, func(w *world.World) error {
		const keys = 100_000
		peers := make([]string, keys)
		for i := range peers {
			peers[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		}
		p, i, rnd := w.PoP("fra"), 0, rand.New(rand.NewPCG(1, 1))
		pool := []*world.Request{}
		fill := func(in *rule.Inputs, q *rule.Request) {
			q.Reset(in)
			q.Method, q.Host, q.Path, q.Peer = "GET", "example.com", "/api/v1", peers[int(math.Pow(rnd.Float64(), power)*keys)]
		}
		ended := func(r *world.Request) { pool = append(pool, r) }
		var send func()
		send = func() {
			if i++; i > b.N {
				return
			}
			r := &world.Request{Fill: fill, Ended: ended}
			if n := len(pool); n > 0 {
				r, pool = pool[n-1], pool[:n-1]
			}
			p.Request(r)
			w.After(100, send)
		}
		b.ReportAllocs()
		b.ResetTimer()
		w.After(0, send)
		w.Run(limit.Micros(b.N)*100 + limit.Second)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		return nil
	})
	if err != nil {
		b.Error(err)
	}
}
