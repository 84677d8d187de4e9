package filter

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// envoy is as much of an Envoy as the filter sees: streams, calls, shared data,
// metrics, in virtual time, with any number of VMs. It drives the filter as Go code, by the rules that a real
// Envoy was seen to follow. The module in a real Envoy is tested by test/e2e.
type envoy struct {
	t       *testing.T
	start   func(e *envoy) *VM
	vms     []*VM
	ns      int64 // monotonic clock
	shared  *tabletest.Store
	config  string
	named   map[uint32]string // plugin contexts with another name than weir
	known   map[string]string // properties of new streams
	asked   []string          // properties that were asked for, while it is not nil
	streams map[uint32]*exchange
	next    uint32 // context
	current uint32 // context whose callback runs
	fetched []byte // the request headers of that stream, if they were fetched
	calls   map[uint32]*httpCall
	answers *httpCall // whose callback runs
	noCall  bool      // calls fail at once
	names   []string  // of metrics, by number
	metrics map[string]int64
	logs    []string
	tickMs  uint32
	acted   int       // local replies and resumed streams of the callback that runs
	crossed crossings // of the module's VMs, since a test last set it
	wakes   bool      // waiting streams are finished on threads of their own
	woken   []uint32  // streams that are to be finished
}

// exchange is a request and what becomes of it.
type exchange struct {
	id       uint32
	plugin   uint32 // context of its listener's plugin
	vm       int
	request  [][2]string
	known    map[string]string // properties by their path
	paused   bool
	resumed  bool
	status   int // of a local reply; 0: none
	details  string
	grpc     int
	body     string
	response [][2]string
	upstream [][2]string // headers of its response
	trailers [][2]string // and its trailers
	decision string      // filter state weir
	tags     string      // filter state weir.*, in the order in which it was set
}

// httpCall is a call in flight.
type httpCall struct {
	id      uint32
	plugin  uint32 // context that gets the answer
	vm      int
	cluster string
	headers [][2]string
	body    []byte
	timeout uint32
	status  string
	answer  []byte
	watch   uint32 // watch_ms of a region's answer
	failed  bool   // it could not be made after all
}

// pluginContext is the root context of the plugin in every VM.
const pluginContext = 1

const plainConfig = `{"region_cluster":"weir_region","pop":"test","table_pages":16}`

// newEnvoy is an Envoy with so many VMs that have got their rules.
func newEnvoy(t *testing.T, start func(*envoy) *VM, config string, vms int) *envoy {
	e := &envoy{
		t: t, start: start, ns: 5e12, config: config, next: 100, shared: tabletest.New(),
		known:   map[string]string{PeerAddress: "192.0.2.7:4711"},
		streams: map[uint32]*exchange{}, calls: map[uint32]*httpCall{}, metrics: map[string]int64{},
	}
	for range vms {
		e.addVM()
	}
	e.settle(nil) // the rules
	return e
}

func (e *envoy) addVM() {
	i := len(e.vms)
	e.vms = append(e.vms, nil)
	e.vms[i] = e.start(e)
	e.run(i, pluginContext, func(g *VM) {
		g.Configure(pluginContext, len(e.config))
	})
}

// run runs a callback of a VM. Of one that finishes more streams than mostFinished, the stack may overflow.
func (e *envoy) run(of int, context uint32, f func(*VM)) {
	before := e.current
	e.current, e.fetched, e.acted = context, nil, 0
	f(e.vms[of])
	e.current, e.fetched = before, nil
	if e.acted > mostFinished {
		e.t.Errorf("a callback finished %d streams, at most %d may be", e.acted, mostFinished)
	}
}

// runOf runs a callback of a stream, which may run inside what Envoy does after another callback: so it finishes
// no more than that stream, where it may.
func (e *envoy) runOf(x *exchange, finishes int, f func(*VM)) {
	e.run(x.vm, x.id, f)
	if e.acted > finishes {
		e.t.Errorf("the callback of a stream finished %d, at most %d may be", e.acted, finishes)
	}
}

// pass lets time pass, with ticks in every VM.
func (e *envoy) pass(ms int) {
	for range ms / 100 {
		e.ns += 100e6
		for i := range e.vms {
			e.run(i, pluginContext, func(g *VM) { g.Tick(pluginContext) })
		}
	}
	e.ns += int64(ms%100) * 1e6
}

// hurry lets time pass until no plugin asks for early ticks any more, with ticks of one plugin.
func (e *envoy) hurry(plugin uint32) (ticks int) {
	for ; e.tickMs == 1; ticks++ {
		e.ns += 1e6
		e.run(0, plugin, func(g *VM) { g.Tick(plugin) })
	}
	return ticks
}

// send begins a request on the listener of the first configuration.
func (e *envoy) send(of int, headers ...string) *exchange {
	return e.sendTo(of, pluginContext, headers...)
}

// sendTo begins a request on the listener of a plugin context.
func (e *envoy) sendTo(of int, plugin uint32, headers ...string) *exchange {
	e.next++
	x := &exchange{id: e.next, plugin: plugin, vm: of, known: e.known}
	for i := 0; i+1 < len(headers); i += 2 {
		x.request = append(x.request, [2]string{headers[i], headers[i+1]})
	}
	e.streams[x.id] = x
	e.crossed.callbacks.add("request_headers")
	e.runOf(x, 1, func(g *VM) {
		x.paused = g.RequestHeaders(x.id)
	})
	if x.paused && x.resumed {
		x.paused = false
	}
	return x
}

// get sends GET path, answers what it waits for, and completes it.
func (e *envoy) get(of int, path string, headers ...string) *exchange {
	x := e.send(of, append([]string{":method", "GET", ":path", path, ":authority", "example.com"}, headers...)...)
	e.settle(nil)
	if x.paused && x.status == 0 {
		e.t.Fatalf("GET %s still waits", path)
	}
	e.complete(x)
	return x
}

// complete lets the upstream answer a request that passed, and ends the stream.
func (e *envoy) complete(x *exchange) {
	e.respondFrom(x)
	e.end(x)
}

func (e *envoy) respondFrom(x *exchange) {
	e.crossed.callbacks.add("response_headers")
	e.runOf(x, 0, func(g *VM) { g.ResponseHeaders(x.id, false) })
}

func (e *envoy) end(x *exchange) {
	e.crossed.callbacks.add("delete")
	e.runOf(x, 0, func(g *VM) { g.Deleted(x.id) })
	delete(e.streams, x.id)
}

// settle answers all calls by f, nil: by a region that grants everything.
func (e *envoy) settle(f func(*httpCall)) {
	for range 100 {
		if len(e.calls) == 0 {
			return
		}
		for _, c := range e.inFlight() {
			if f == nil {
				grantAll(c)
			} else {
				f(c)
			}
			e.deliver(c)
		}
	}
	e.t.Fatal("the calls do not end")
}

func (e *envoy) inFlight() (calls []*httpCall) {
	for _, id := range slices.Sorted(maps.Keys(e.calls)) {
		calls = append(calls, e.calls[id])
	}
	return calls
}

func (e *envoy) deliver(c *httpCall) {
	delete(e.calls, c.id)
	e.answers = c
	e.crossed.callbacks.add("http_call_response")
	e.run(c.vm, c.plugin, func(g *VM) {
		if c.failed {
			g.CallFailed(c.plugin, c.id)
		} else {
			g.CallResponse(c.plugin, c.id, len(c.answer))
		}
	})
	e.answers = nil
}

// grantAll answers a call as a region without limits does.
func grantAll(c *httpCall) { grantOf(1 << 30)(c) }

// grantOf answers a call as a region does that has so many units left of each key.
func grantOf(left int64) func(*httpCall) {
	return granting(func(w *wire.Want) lease.Grant {
		granted := min(w.Want.Want, left)
		if w.Holding+w.Want.Want > 0 && granted < w.Need {
			return lease.Grant{Status: lease.Denied, Limit: 100, RetryAfter: 30_500, AskAfter: 1000, Reset: 30_500}
		}
		return lease.Grant{Status: lease.OK, Granted: granted, TTL: 10_000, Limit: 100, Remaining: left - granted, Reset: 60_000}
	})
}

// grantsOf answers each want of a call by the same grant.
func grantsOf(g lease.Grant) func(*httpCall) {
	return granting(func(*wire.Want) lease.Grant { return g })
}

// granting answers a call as a region does that decides its wants so.
func granting(decide func(*wire.Want) lease.Grant) func(*httpCall) {
	return answering(func(w *wire.Want) wire.Grant { return wire.Grant{Grant: decide(w)} })
}

// overriding answers each want of a call by the same grant, of an override by key with this name.
func overriding(name string, g lease.Grant) func(*httpCall) {
	return answering(func(*wire.Want) wire.Grant { return wire.Grant{Grant: g, Name: []byte(name)} })
}

func answering(decide func(*wire.Want) wire.Grant) func(*httpCall) {
	return func(c *httpCall) {
		c.status = "200"
		if header(c.headers, ":path") == uplink.RulesPath {
			c.answer, _ = proto.Marshal(&quotav1.RulesResponse{Protocol: 1, RulesVersion: "same"})
			return
		}
		var q wire.Request
		if err := q.Decode(c.body); err != nil {
			panic(err)
		}
		a := wire.Response{Protocol: 1, Seq: q.Seq, RulesVersion: q.RulesVersion, Holders: 1, WatchMs: c.watch}
		for i := range q.Wants {
			a.Grants = append(a.Grants, decide(&q.Wants[i]))
		}
		c.answer = a.Append(nil)
	}
}

func hang(c *httpCall)    { c.status, c.answer = "504", []byte("upstream request timeout") }
func reject(c *httpCall)  { c.status, c.answer = "503", []byte("upstream connect error") }
func garbage(c *httpCall) { c.status, c.answer = "200", []byte("\xff\xff<html>") }

func header(headers [][2]string, name string) string {
	for _, h := range headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

func (e *envoy) stream() *exchange { return e.streams[e.current] }

// plugin is the context of the plugin whose callback runs, or of the stream's.
func (e *envoy) plugin() uint32 {
	if x := e.stream(); x != nil {
		return x.plugin
	}
	return e.current
}

func (e *envoy) logged(part string) bool {
	return slices.ContainsFunc(e.logs, func(line string) bool { return strings.Contains(line, part) })
}

// encodeMap and decodeMap are the ABI's form of headers.
func encodeMap(headers [][2]string) []byte {
	var m headerMap
	for _, h := range headers {
		m.add(h[0], h[1])
	}
	return m.bytes()
}

func decodeMap(raw []byte) (headers [][2]string) {
	for h := pairsOf(append([]byte(nil), raw...)); h.next(^lengths(0)); {
		headers = append(headers, [2]string{h.name, h.value})
	}
	return headers
}

// nativeHost is the host that a VM sees.
type nativeHost struct {
	*envoy
	n int
}

func startNative(e *envoy) *VM { return NewVM(nativeHost{e, len(e.vms) - 1}, nil) }

func (h nativeHost) Store(identity uint64) table.Store { return newSpace(h, identity) }
func (h nativeHost) Collect()                          {}
func (h nativeHost) Span() string                      { return h.headers().sole("traceparent") }

// KeepsHeaders and Wake are what Envoy does for a dynamic module.
func (h nativeHost) KeepsHeaders() bool { return h.wakes }

func (h nativeHost) Wake(stream uint32) bool {
	if h.wakes {
		h.woken = append(h.woken, stream)
	}
	return h.wakes
}

func (h nativeHost) Get(key []byte) ([]byte, uint32, bool) {
	value, version, ok := h.shared.Get(key)
	h.crossed.crosses("get_shared_data", len(value), len(key))
	return value, version, ok
}

func (h nativeHost) Set(key, value []byte, cas uint32) table.Outcome {
	h.crossed.crosses("set_shared_data", 0, len(key)+len(value))
	return h.shared.Set(key, value, cas)
}

func (h nativeHost) Log(_ Level, message string) { h.logs = append(h.logs, message) }

func (h nativeHost) Now() lease.Millis {
	h.crossed.crosses("clock", 0, 0)
	return lease.Millis(h.ns / 1e6)
}

func (h nativeHost) Wall() limit.Micros {
	h.crossed.crosses("clock", 0, 0)
	return 1_800_000_000*limit.Second + limit.Micros(h.ns/1e3)
}

func (h nativeHost) Entropy() [6]uint64      { n := uint64(h.n + 1); return [6]uint64{n, 2, 3, 4, 2 * n, n} }
func (h nativeHost) SetTick(ms uint32)       { h.tickMs = ms }
func (h nativeHost) PluginConfig(int) []byte { return []byte(h.config) }
func (h nativeHost) PluginName() string      { return cmp.Or(h.named[h.plugin()], "weir") }

func (h nativeHost) Effective(stream uint32) {
	h.crossed.crosses("set_effective_context", 0, 0)
	h.current, h.fetched = stream, nil
}

func (h nativeHost) headers() pairs {
	if h.fetched == nil {
		h.fetched = encodeMap(h.stream().request)
		h.crossed.crosses("get_header_map_pairs", len(h.fetched), 0)
	}
	return pairsOf(h.fetched)
}

func (h nativeHost) AddHeaders(in *rule.Request, of *Wanted) { h.headers().addTo(in, of) }

func (h nativeHost) Header(name string) (string, bool) {
	if h.fetched != nil {
		v, n := h.headers().valueOf(name)
		return v, n > 0
	}
	v := header(h.stream().request, name)
	h.crossed.crosses("get_header_map_value", len(v), len(name))
	return v, v != ""
}

// property is one of the stream's.
func (h nativeHost) Property(path string) (value string, ok bool) {
	if h.asked != nil {
		h.asked = append(h.asked, path)
	}
	value, ok = h.stream().known[path]
	h.crossed.crosses("get_property", len(value), len(path))
	return value, ok
}

func (h nativeHost) ResponseTrailer(name string) (string, bool) {
	v := header(h.stream().trailers, name)
	return v, v != ""
}

func (h nativeHost) ResponseNumber(path string) (string, bool) { return h.ResponseTrailer(path) }

// responseHeader is one of the upstream's response.
func (h nativeHost) ResponseHeader(name string) (string, bool) {
	v := header(h.stream().upstream, name)
	h.crossed.crosses("get_header_map_value", len(v), len(name))
	return v, v != ""
}

func (h nativeHost) AddResponseHeader(name, value string) {
	h.crossed.crosses("add_header_map_value", 0, len(name)+len(value))
	x := h.stream()
	x.response = append(x.response, [2]string{strings.Clone(name), strings.Clone(value)})
}

// ReplaceResponseHeader sets a header, whoever has set it before.
func (h nativeHost) ReplaceResponseHeader(name, value string) {
	h.crossed.crosses("replace_header_map_value", 0, len(name)+len(value))
	x, named := h.stream(), func(h [2]string) bool { return h[0] == name }
	x.upstream, x.response = slices.DeleteFunc(x.upstream, named), slices.DeleteFunc(x.response, named)
	x.response = append(x.response, [2]string{strings.Clone(name), strings.Clone(value)})
}

// setState is what Envoy does with filter state.
func (h nativeHost) SetState(name, value string) {
	h.crossed.crosses("set_property", 0, len(name)+len(value))
	if x := h.stream(); name == "weir" {
		x.decision = strings.Clone(value)
	} else {
		x.tags += name + "=" + value + " "
	}
}

func (h nativeHost) Respond(status int, details string, headers, body []byte, grpc int) {
	h.crossed.crosses("send_local_response", 0, len(details)+len(headers)+len(body))
	x := h.stream()
	if x == nil || x.status != 0 {
		h.t.Fatalf("local reply %d to a stream that has none to come", status)
	}
	h.acted++
	x.status, x.details, x.response, x.body, x.grpc = status, strings.Clone(details), decodeMap(headers), string(body), grpc
}

func (h nativeHost) Resume() {
	h.crossed.crosses("continue_stream", 0, 0)
	x := h.stream()
	if x == nil || !x.paused || x.resumed {
		h.t.Fatal("a stream is resumed that does not wait")
	}
	h.acted++
	x.paused, x.resumed = false, true
}

func (h nativeHost) Call(cluster string, headers, body []byte, timeout lease.Millis) (uint32, bool) {
	h.crossed.crosses("http_call", 0, len(cluster)+len(headers)+len(body))
	if h.noCall || !strings.HasPrefix(cluster, "weir_region") {
		return 0, false
	}
	h.next++
	h.calls[h.next] = &httpCall{id: h.next, plugin: h.plugin(), vm: h.n, cluster: strings.Clone(cluster), headers: decodeMap(headers), body: append([]byte(nil), body...), timeout: uint32(timeout)}
	return h.next, true
}

func (h nativeHost) Answer(int) (string, []byte) {
	h.crossed.crosses("get_buffer_bytes", len(h.answers.status)+len(h.answers.answer), 0)
	return h.answers.status, h.answers.answer
}

func (h nativeHost) Counter(name string) uint32   { return h.define(name, Counters) }
func (h nativeHost) Gauge(name string) uint32     { return h.define(name, Gauges) }
func (h nativeHost) Histogram(name string) uint32 { return h.define(name, Histograms) }

// define makes a metric, which a host may have had to know before.
func (h nativeHost) define(name string, known []string) uint32 {
	parts := strings.Split(name, ".")
	pattern := strings.Join(parts[:2], ".")
	for i := 2; i+1 < len(parts); i += 2 {
		pattern += "." + parts[i]
	}
	if !slices.Contains(known, pattern) {
		h.t.Errorf("stats.go does not list %s, the pattern of %s", pattern, name)
	}
	i := slices.Index(h.names, name)
	if i < 0 {
		h.names, i = append(h.names, name), len(h.names)
		h.metrics[name] = 0
	}
	return uint32(i)
}

func (h nativeHost) Add(m uint32, n int64) {
	h.crossed.crosses("increment_metric", 0, 0)
	h.metrics[h.names[m]] += n
}

func (h nativeHost) Record(m uint32, v uint64) {
	h.crossed.crosses("record_metric", 0, 0)
	h.metrics[h.names[m]] = int64(v)
}

// withRules is a configuration with bundled rules.
func withRules(t testing.TB, rules string) string {
	t.Helper()
	_ = fatal.Get(read.JSON([]byte(rules)))(t)
	return strings.TrimSuffix(plainConfig, "}") + `,"rules":` + rules + `}`
}
