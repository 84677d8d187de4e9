package filter

import (
	"strings"
	"testing"
)

const countRules = `{"rules":[
	{"name":"failures","match":{"path":"/login"},"key":[],"limit":"4/1h","scope":"pop","algorithm":"fixed_window","count":{"status":[401],"grpc_status":[16]}}]}`

// TestCountByResponse: the response of the upstream settles a reservation, and its headers state what is left then, also where
// the host would keep headers for it.
func TestCountByResponse(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		e := startNew(t, withRules(t, countRules), 1)
		e.wakes = keeps
		respond := func(details string, trailers bool, headers ...[2]string) *exchange {
			x := e.send(0, ":path", "/login", ":method", "GET")
			x.known, x.upstream = map[string]string{CodeDetails: details}, headers
			if x.status == 0 {
				e.runOf(x, 0, func(g *VM) { g.ResponseHeaders(x.id, trailers) })
			}
			return x
		}
		left := func(x *exchange, want string, open bool) {
			t.Helper()
			if got := header(x.response, "ratelimit")[:14]; got != `"failures";r=`+want || e.vms[0].Keeps(x.id) != open {
				t.Errorf("keeps headers %v: %s, open %v", keeps, got, e.vms[0].Keeps(x.id))
			}
		}
		const upstream = "via_upstream"
		ok, failed := [2]string{":status", "200"}, [2]string{":status", "401"}
		left(respond(upstream, false, ok), "4", false)
		left(respond("ext_authz_denied", true, failed), "4", false)
		left(respond("", false, failed), "4", false)
		left(respond(upstream, true, failed), "3", false)
		left(respond(upstream, true, ok, [2]string{"grpc-status", "16"}), "2", false)
		left(respond(upstream, true, ok, [2]string{"grpc-status", "0"}), "2", false)
		for _, status := range []string{"7", "", "16"} {
			x := respond(upstream, true, ok)
			left(x, "1", true)
			e.runOf(x, 0, func(g *VM) { g.ResponseTrailers(x.id, status) })
			e.end(x)
		}
		left(respond(upstream, false, ok), "1", false)
		e.end(respond(upstream, true, ok)) // reset before its trailers
		e.end(e.send(0, ":path", "/login", ":method", "GET"))
		left(respond(upstream, false, failed), "0", false)
		if x := respond(upstream, false, ok); x.status != 429 {
			t.Errorf("keeps headers %v: status %d after four failures", keeps, x.status)
		}
	}
}

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
