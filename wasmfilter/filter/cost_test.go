package filter

import (
	"strings"
	"testing"
)

const costRules = `{"rules":[
	{"name":"header","match":{"path":"/header"},"key":[],"limit":"1000/1h","scope":"pop","algorithm":"fixed_window","cost":{"estimate":50,"actual":{"header":"x-used"},"max":100}},
	{"name":"trailer","match":{"path":"/trailer"},"key":[],"limit":"1000/1h","scope":"pop","algorithm":"fixed_window","cost":{"estimate":50,"actual":{"trailer":"x-used"},"max":100}},
	{"name":"metadata","match":{"path":"/metadata"},"key":[],"limit":"1000/1h","scope":"pop","algorithm":"fixed_window","cost":{"estimate":50,"actual":{"metadata":{"namespace":"ai","key":"tokens"}},"max":100}}]}`

// TestActualCost: a cost is read where the rule says, when it is known, and the stream is kept until then. A number of metadata is
// a double.
func TestActualCost(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		e := startNew(t, withRules(t, costRules), 1)
		e.wakes = keeps
		play := func(path, inHeader, inTrailer, inMetadata string) {
			x := e.send(0, ":path", path, ":method", "POST")
			x.known = map[string]string{CodeDetails: "via_upstream"}
			x.upstream = [][2]string{{":status", "200"}, {"x-used", inHeader}}
			x.trailers = [][2]string{{"x-used", inTrailer}}
			e.runOf(x, 0, func(g *VM) { g.ResponseHeaders(x.id, true) })
			e.runOf(x, 0, func(g *VM) { g.ResponseTrailers(x.id, "") })
			if inMetadata != "" {
				x.known[MetadataOf+"ai\x00tokens"] = inMetadata
			}
			e.end(x)
		}
		play("/header", "10", "20", double(30))
		play("/header", "-1", "20", double(30))
		play("/trailer", "10", "20", double(30))
		play("/trailer", "10", "", double(30))
		play("/metadata", "10", "20", double(30))
		play("/metadata", "10", "20", "30")
		play("/metadata", "10", "20", double(0.5))
		play("/metadata", "10", "20", "")
		for path, want := range map[string]string{"/header": "890", "/trailer": "880", "/metadata": "790"} {
			x := e.send(0, ":path", path, ":method", "POST")
			x.known = map[string]string{}
			x.upstream = [][2]string{{":status", "200"}}
			e.runOf(x, 0, func(g *VM) { g.ResponseHeaders(x.id, true) })
			if got := header(x.response, "ratelimit"); !strings.Contains(got, ";r="+want+";") {
				t.Errorf("keeps headers %v, %s: %s, want %s", keeps, path, got, want)
			}
			e.end(x)
		}
	}
}
