package filter

import (
	"encoding/binary"
	"strings"
	"testing"
)

const failRules = `{"rules":[
	{"name":"deny","match":{"path":"/deny"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","consistency":"exact","on_failure":{"action":"deny","status":429}},
	{"name":"allow","match":{"path":"/allow"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","consistency":"exact","on_failure":"allow"},
	{"name":"share","match":{"path":"/share"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","scope":"pop","on_failure":"local"},
	{"name":"slot","match":{"path":"/slot"},"key":[],"limit":1,"algorithm":"concurrency","scope":"pop","on_failure":"allow"}
]}`

// FuzzCallbacks calls a VM with whatever Envoy and clients may pass, in any order: configurations, requests that wait, pass
// and end at any time, answers of any status and body, known and unknown ids. Nothing panics, and afterwards no stream is
// left.
func FuzzCallbacks(f *testing.F) {
	f.Add([]byte("\x00\x05/deny\x03ann\x03\x00\x04\x00\x05\x00"))
	f.Add([]byte("\x00\x06/allow\x03bob\x02\x03503\x04\x00\x06\x00\x07\x20{\"region_cluster\":\"weir_region\"}"))
	f.Add([]byte("\x00\x05/slot\x00\x01\x06\x00\x00\x05/slot\x01x\x08\x04\x05\x00"))
	f.Add([]byte("\x00\x07\x3c{\"region_cluster\":\"r\",\"table_pages\":64,\"rules\":{\"rules\":[]}}"))
	config := strings.Replace(withRules(f, failRules), "{", `{"span_tags":true,`, 1)
	f.Fuzz(func(t *testing.T, input []byte) {
		e := newEnvoy(t, startNative, config, 1)
		e.wakes = true
		in := bytesIn{input}
		for steps := 0; len(in.left) > 0 && steps < 200; steps++ {
			e.callback(&in)
		}
		for _, x := range e.streams {
			e.end(x)
		}
		e.settle(hang)
		e.pass(100)
		if n := e.metrics["weir.panics"]; n != 0 {
			t.Fatalf("%d panics: %q", n, e.logs)
		}
		for _, chain := range e.vms[0].streams {
			if chain != nil {
				t.Fatalf("stream %d is left", chain.request.Stream)
			}
		}
	})
}

// callback makes one callback, of a stream that there is.
func (e *envoy) callback(in *bytesIn) {
	x, calls := e.streams[e.next-uint32(in.byte())], e.inFlight()
	switch kind := in.byte() % 10; {
	case kind < 3:
		path, user := in.text(), in.text()
		e.send(0, ":method", "GET", ":path", path, "x-user", user, in.text(), in.text())
	case kind == 3 && len(calls) > 0:
		c := calls[int(in.byte())%len(calls)]
		c.status, c.answer = in.text(), []byte(in.text())
		e.deliver(c)
	case kind == 4 && len(calls) > 0:
		grantAll(calls[0])
		e.deliver(calls[0])
	case kind == 5 && x != nil:
		x.upstream = [][2]string{{":status", in.text()}, {"endpoint-load-metrics", in.text()}}
		e.respondFrom(x)
	case kind == 6 && x != nil:
		e.end(x)
	case kind == 7:
		e.config = in.text()
		e.next++
		e.run(0, e.next, func(m *VM) {
			m.Configure(e.next, len(e.config))
			m.Tick(e.next)
			m.Deleted(e.next)
		})
	case kind == 8:
		e.pass(100 * int(in.byte()%30))
	default: // what nobody knows, and streams that are to be finished, in the order of their numbers or another one
		e.run(0, pluginContext, func(m *VM) { m.CallFailed(pluginContext, uint32(in.byte())) })
		for _, id := range e.woken {
			if w := e.streams[id]; w != nil && w.status == 0 {
				e.run(0, id, func(m *VM) { m.Finish(id) })
			}
		}
		e.woken = nil
	}
}

// bytesIn is input of a fuzz target.
type bytesIn struct{ left []byte }

func (b *bytesIn) byte() (v byte) {
	if len(b.left) > 0 {
		v, b.left = b.left[0], b.left[1:]
	}
	return v
}

// text is a length and so many bytes.
func (b *bytesIn) text() (s string) {
	n := min(int(b.byte()), len(b.left))
	s, b.left = string(b.left[:n]), b.left[n:]
	return s
}

// FuzzPairs reads a serialised map of headers.
func FuzzPairs(f *testing.F) {
	f.Add(encodeMap([][2]string{{":path", "/"}, {"x-user", "ann"}}), uint64(1<<5|1<<6))
	f.Add(binary.LittleEndian.AppendUint32(nil, ^uint32(0)), ^uint64(0))
	f.Fuzz(func(t *testing.T, raw []byte, of uint64) {
		size := 0
		for h := pairsOf(raw); h.next(lengths(of)); {
			size += len(h.name) + len(h.value)
		}
		if size > len(raw) {
			t.Errorf("%d bytes of %d", size, len(raw))
		}
		pairsOf(raw).valueOf("x-user")
	})
}
