package world_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

func rules(t testing.TB, text string) *rule.Set {
	t.Helper()
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte(text)))(t)
	return set.Dated(1)
}

// client makes requests and notes what becomes of them.
type client struct {
	text strings.Builder
	w    *world.World
}

// sends has a PoP take a request for a path, whose stream lasts so long.
func (c *client) sends(pop, path string, lasts limit.Micros) {
	q := request.Request{Path: path, Client: "192.0.2.1"}
	c.w.PoP(pop).Request(&world.Request{Fill: q.Fill, Lasts: lasts, Decided: func(r *world.Request) {
		verdict := [...]string{"admitted", "rejected", "waits"}[r.Edge.Outcome]
		if r.Edge.Degraded {
			verdict += " alone"
		}
		fmt.Fprintf(&c.text, "%s %s %s", pop, path, verdict)
		r.Edge.Quotas(func(q *edge.Quota) { fmt.Fprintf(&c.text, ", %s %d of %d", q.Name, q.Remaining, q.Limit) })
		c.text.WriteByte('\n')
	}})
}

func (c *client) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.TrimSpace(c.text.String()); got != strings.TrimSpace(want) {
		t.Errorf("%s\nwant%s", got, want)
	}
	c.text.Reset()
}

// One region decides as the product does, with all that rules have.
func TestOneRegion(t *testing.T) {
	set := rules(t, `
rules:
  - { name: api, match: { path: { prefix: /api } }, key: [client_ip], limit: 2/1m, overrides: [ { name: big, when: { query: { plan: big } }, limit: 3/1m } ] }
  - { name: here, match: { region: [eu] }, scope: pop, key: [], limit: 3/1s, algorithm: fixed_window }
  - { name: slots, match: { path: { prefix: /slow } }, key: [], limit: 1, algorithm: concurrency }
  - { name: soon, match: { path: { prefix: /try } }, key: [client_ip], limit: 1/1m, mode: shadow }
`)
	err := world.Play(world.Config{Rules: set, Steady: true, PoPs: []world.PoPConfig{{Name: "fra", Region: "eu"}, {Name: "nyc", Region: "us"}}}, func(w *world.World) error {
		c := client{w: w}
		c.sends("nyc", "/api", 0)
		c.sends("fra", "/api", 0)
		w.Run(limit.Second)
		c.sends("nyc", "/api", 0)
		c.sends("nyc", "/slow", limit.Minute)
		w.Run(limit.Second)
		c.sends("nyc", "/slow", 0)
		w.Run(limit.Minute)
		c.sends("nyc", "/slow", 0)
		w.Run(0)
		c.want(t, `
nyc /api admitted, api 1 of 2
fra /api admitted, api 0 of 2, here 2 of 3
nyc /api rejected, api 0 of 2
nyc /slow admitted, slots 0 of 1
nyc /slow rejected, slots 0 of 1
nyc /slow admitted, slots 0 of 1`)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

const regional = `
regions: { eu: 1, us: 1 }
rules:
  - { name: near, match: { path: { prefix: /near } }, key: [], limit: 2/1m, algorithm: fixed_window }
  - { name: far, match: { path: { prefix: /far } }, key: [], limit: 4/1m, algorithm: fixed_window, scope: global }
`

// Each region counts its own rules, and the aggregator those of all. What is cut off decides by its reserve and by
// on_failure.
func TestRegions(t *testing.T) {
	c := world.Config{
		Rules: rules(t, regional), Regions: []string{"eu", "us"}, Net: world.Net{Delay: limit.Millisecond}, AggregatorNet: world.Net{Delay: 40 * limit.Millisecond},
		PoPs: []world.PoPConfig{{Name: "fra", Region: "eu"}, {Name: "nyc", Region: "us"}},
	}
	err := world.Play(c, func(w *world.World) error {
		c := client{w: w}
		each := func(pops ...string) {
			for _, pop := range pops {
				for _, path := range []string{"/near", "/far"} {
					c.sends(pop, path, 0)
					w.Run(limit.Second)
				}
			}
		}
		w.Run(2*limit.Minute + limit.Second) // regions know their shares
		each("fra", "fra", "fra", "nyc", "nyc")
		c.want(t, `
fra /near admitted, near 1 of 2
fra /far admitted, far 3 of 4
fra /near admitted, near 0 of 2
fra /far admitted, far 2 of 4
fra /near rejected, near 0 of 2
fra /far admitted, far 1 of 4
nyc /near admitted, near 1 of 2
nyc /far admitted, far 0 of 4
nyc /near admitted, near 0 of 2
nyc /far rejected, far 0 of 4`)
		w.CutRegion("us", true)
		w.Run(2 * limit.Minute)
		each("nyc", "nyc", "nyc")
		c.want(t, `
nyc /near admitted, near 1 of 2
nyc /far admitted, far 1 of 4
nyc /near admitted, near 0 of 2
nyc /far admitted, far 0 of 4
nyc /near rejected, near 0 of 2
nyc /far rejected, far 0 of 4`)
		w.CutRegion("us", false)
		w.PoP("nyc").Link.Cut = true
		w.Run(2 * limit.Minute)
		each("nyc")
		c.want(t, `
nyc /near admitted alone, near 0 of 2
nyc /far admitted alone, far 0 of 4`)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What a world cannot be made of is named.
func TestConfig(t *testing.T) {
	set, pops := rules(t, regional), []world.PoPConfig{{Name: "fra", Region: "eu"}}
	for want, c := range map[string]world.Config{
		"at least one PoP":       {Rules: set},
		"rules and":              {PoPs: pops},
		`region "eu" is none of`: {Rules: set, PoPs: pops, Regions: []string{"us", "ap"}},
		`"e u" is no name`:       {Rules: set, PoPs: pops, Regions: []string{"eu", "e u"}},
	} {
		err := world.Play(c, func(*world.World) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
