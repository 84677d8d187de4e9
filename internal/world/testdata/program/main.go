// Command program plays two regions outside of a test.
package main

import (
	"fmt"
	"os"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

func main() {
	set, err := rulefile.Parse("rules.yaml", []byte("rules: [ { name: far, key: [], limit: 4/1m, algorithm: fixed_window, scope: global } ]"))
	if err == nil {
		err = world.Play(world.Config{
			Rules: set.Dated(1), Regions: []string{"eu", "us"}, PoPs: []world.PoPConfig{{Name: "fra", Region: "eu"}, {Name: "nyc", Region: "us"}},
		}, play)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func play(w *world.World) error {
	admitted, begin := 0, w.Now()
	w.Run(limit.Minute/3 - 16*limit.Second)
	for range 8 {
		for _, pop := range []string{"fra", "nyc"} {
			w.PoP(pop).Request(&world.Request{
				Fill: func(in *rule.Inputs, q *rule.Request) { q.Reset(in) },
				Decided: func(r *world.Request) {
					if r.Edge.Outcome == edge.Admit {
						admitted++
					}
				},
			})
			w.Run(limit.Second)
		}
	}
	fmt.Printf("admitted %d of 16 in %d s\n", admitted, (w.Now()-begin)/limit.Second)
	return nil
}
