// Package filter joins package edge to Envoy through Proxy-Wasm: it fetches the properties that rules need, has the edge
// decide, and sends the decision.
//
// It implements the ABI itself (abi_wasip1.go), not through an SDK; RATIONALE.md has the reason.
//
// Each callback and each call of the host costs a request some thousand instructions of Envoy and its engine, so there are
// few; testdata/touched.md counts them for each kind of request. A rule that needs the client's address adds source.address
// once per request. Metrics cost a request nothing: the worker counts them and adds them at every tick.
package filter

import (
	"encoding/binary"
	"runtime"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// VM is one VM: Envoy makes one per worker thread, and one for the main
// thread, each with its own memory. A panic in a callback is caught here, logged and counted: one on a request that has no
// verdict yet leaves it to on_failure.
type VM struct {
	host    Host
	plugins map[uint32]*plugin
	// newest is the plugin of each name that decides new streams: the one that was configured
	// last. There are several of a name where listeners share a configuration, and while an old
	// listener drains.
	newest  map[string]*plugin
	sole    *plugin // decides all new streams; nil: there are several names, or none
	streams streams
	// decided are streams that waited and have a verdict. All plugins share them, because one filter chain may have
	// several. Streams that have ended meanwhile are skipped.
	decided []uint32
	// good is the last configuration without a mistake, by the plugin's name. Envoy
	// makes a new context for a changed configuration.
	good    map[string]rulebook.Config
	started bool // a plugin was configured, or the VM cannot have crashed alone
	free    []*stream
	traced  bool // the stack of a panic was logged
	panics  panics
}

// NewVM returns a VM without plugins. Where one process has several VMs, all but its first one get any of those
// before, whose good configurations they share: then one goroutine at a time calls Configure.
func NewVM(h Host, before *VM) *VM {
	m := &VM{host: h, plugins: map[uint32]*plugin{}, newest: map[string]*plugin{}}
	if before != nil {
		m.good, m.started = before.good, true
	} else {
		m.good = map[string]rulebook.Config{}
	}
	return m
}

// recovered catches what a callback panicked with.
func (m *VM) recovered(callback string) {
	if cause := recover(); cause != nil {
		m.panicked(callback, cause)
	}
}

// panicked logs and counts a panic; the first one with its stack.
func (m *VM) panicked(callback string, cause any) {
	message := "weir: panic in " + callback
	if err, ok := cause.(error); ok {
		message += ": " + err.Error()
	} else if s, ok := cause.(string); ok {
		message += ": " + s
	}
	stack := message
	if !m.traced {
		m.traced = true
		b := make([]byte, mostOfStack)
		stack += "\n" + string(b[:runtime.Stack(b, false)])
	}
	m.host.Log(LogError, stack)
	m.host.Add(m.host.Counter("weir.panics"), 1)
	for _, p := range m.plugins {
		p.worker.Problem(m.host.Now(), message)
	}
}

// mostOfStack is how many bytes of the stack of a panic are logged.
const mostOfStack = 8 << 10

// Configure starts a plugin, or gives it another configuration. It never fails:
// Envoy would not start.
func (m *VM) Configure(context uint32, size int) {
	defer m.recovered("on_configure")
	if len(m.plugins) == 0 {
		m.host.Log(LogInfo, "weir: version "+version.Version)
	}
	text := m.host.PluginConfig(size)
	p := m.start(context, text, false)
	if p == nil {
		p = m.start(context, text, true)
	}
	if p == nil {
		return
	}
	if !m.started {
		m.started = true
		p.checkReplaced(m.host.Now())
	}
	m.plugins[context] = p
	m.prefer(p)
	p.ticked = m.host.Now()
	p.pace(p.ticked)
	p.configuring = true
	p.after()
	p.configuring = false
}

// start makes a plugin; nil after a panic.
func (m *VM) start(context uint32, text []byte, panicked bool) (p *plugin) {
	defer m.recovered("on_configure")
	return newPlugin(m, context, text, panicked)
}

// prefer has a plugin decide the new streams of its name.
func (m *VM) prefer(p *plugin) {
	m.newest[p.name] = p
	if m.sole = p; len(m.newest) > 1 {
		m.sole = nil
	}
}

// Tick does what is due, in the period that Host.SetTick has set.
func (m *VM) Tick(context uint32) {
	defer m.recovered("on_tick")
	if p := m.plugins[context]; p != nil {
		p.tick()
	}
}

// CallResponse takes the answer to a call of a plugin, which Host.Answer returns.
func (m *VM) CallResponse(context, id uint32, bodySize int) {
	defer m.recovered("on_http_call_response")
	if p := m.plugins[context]; p != nil {
		p.answer(id, bodySize)
	}
}

// RequestHeaders decides a request. True has it wait, or it is answered already.
func (m *VM) RequestHeaders(context uint32) (pause bool) {
	p := m.sole
	defer func() {
		if cause := recover(); cause != nil {
			m.panicked("on_request_headers", cause)
			if p != nil {
				p.current = 0
				if p.open {
					pause = p.fallBack(p.stream)
				}
			}
		}
	}()
	if p == nil && len(m.newest) > 0 {
		p = m.newest[m.host.PluginName()]
	}
	if p == nil {
		return false
	}
	return p.decide(context)
}

// CallFailed ends a call of a plugin that could not be made after all.
func (m *VM) CallFailed(context, id uint32) {
	defer m.recovered("on_http_call_response")
	if p := m.plugins[context]; p != nil {
		p.notMade(id)
	}
}

// Finish finishes a stream that Host.Wake has named; nothing if it has ended.
func (m *VM) Finish(context uint32) {
	s := m.streams.find(context)
	if s == nil {
		return
	}
	defer m.recovered("on_scheduled")
	s.plugin.finish(&s.request)
	s.plugin.after()
	if r := &s.request; r.Outcome == edge.Admit && !r.Holds() && m.host.KeepsHeaders() {
		m.end(s)
	}
}

// Keeps reports whether a stream is one of which the VM has to know the response and the end.
func (m *VM) Keeps(context uint32) bool { return m.streams.find(context) != nil }

// ResponseHeaders takes the response to a request; trailers: ResponseTrailers may follow.
func (m *VM) ResponseHeaders(context uint32, trailers bool) {
	s := m.streams.find(context)
	if s == nil {
		return
	}
	defer m.recovered("on_response_headers")
	m.panics.at("on_response_headers")
	r := &s.request
	annotates := r.Outcome == edge.Admit && !m.host.KeepsHeaders()
	if r.HasReservations() {
		s.plugin.settle(r, trailers)
		annotates = true
	}
	if annotates {
		s.plugin.annotate(r)
	}
	s.plugin.sample(r)
	if r.Outcome != edge.Wait && !r.Holds() {
		m.end(s)
	}
}

// BodyPaths are the paths of the numbers in the body of the response that the stream needs when it ends; none after that.
func (m *VM) BodyPaths(context uint32) []string {
	if s := m.streams.find(context); s != nil && s.request.HasReservations() {
		return s.request.BodyPaths()
	}
	return nil
}

// ResponseTrailers takes the trailers of a response: their grpc-status, empty if they have none.
func (m *VM) ResponseTrailers(context uint32, status string) {
	s := m.streams.find(context)
	if s == nil || !s.request.HasReservations() {
		return
	}
	defer m.recovered("on_response_trailers")
	m.panics.at("on_response_trailers")
	r := &s.request
	s.plugin.worker.Settle(m.host.Now(), r, settle.Response{Upstream: true, GRPCStatus: grpcStatus(status), Cost: s.plugin.costInTrailers})
	if !r.Holds() {
		m.end(s)
	}
}

// Deleted ends a stream, however it ended, or a plugin whose listener has drained or was rejected.
func (m *VM) Deleted(context uint32) {
	defer m.recovered("on_delete")
	if s := m.streams.find(context); s != nil {
		defer m.end(s) // also after a panic
		m.panics.at("on_delete")
		if r := &s.request; r.HasReservations() {
			s.plugin.worker.Settle(m.host.Now(), r, settle.Response{Ends: true, Cost: s.plugin.costAtEnd})
		}
	} else if p := m.plugins[context]; p != nil {
		m.remove(p)
	}
}

// end forgets a stream.
func (m *VM) end(s *stream) {
	m.streams.remove(s)
	if r := &s.request; r.Outcome == edge.Wait || r.Holds() {
		s.plugin.worker.End(m.host.Now(), r)
	}
	m.release(s)
}

// remove forgets a plugin. The newest of those with its name that are left decides new streams. Streams of an older plugin
// may still wait for this one, if another update follows soon: they fall back, and a tick of another plugin finishes them.
func (m *VM) remove(gone *plugin) {
	delete(m.plugins, gone.context)
	gone.worker.FallBack(m.host.Now())
	gone.worker.Calls = nil
	gone.after()
	if m.newest[gone.name] != gone {
		return
	}
	delete(m.newest, gone.name)
	m.sole = nil
	for _, p := range m.plugins {
		if n := m.newest[p.name]; n == nil || n.context < p.context {
			m.newest[p.name] = p
		}
	}
	if len(m.newest) == 1 {
		for _, p := range m.newest {
			m.sole = p
		}
	}
}

// mostFinished is how many requests that waited one callback resumes or rejects. Envoy does that
// after the callback, each inside the one before it if a response follows at once. V8 discards a
// VM whose stack is full: in Envoy 1.40 after 304 rejections, or 273 resumed requests whose route
// has a direct_response, whatever filters stand beside it. Envoy's timers may come only every 4 ms,
// so a smaller number would delay the last of many requests.
const mostFinished = 96

// finishSome finishes at most mostFinished decided streams. Only ticks and answers call it: Envoy runs
// the callbacks of streams inside what it does after another callback.
func (m *VM) finishSome() {
	taken := 0
	for n := 0; n < mostFinished && taken < len(m.decided); taken++ {
		if s := m.streams.find(m.decided[taken]); s != nil {
			s.plugin.finish(&s.request)
			n++
		}
	}
	m.decided = slices.Delete(m.decided, 0, taken)
}

// pace sets the period of the plugin's ticks: 1 ms while there are decided streams, otherwise the time
// until its next upkeep.
func (p *plugin) pace(now lease.Millis) {
	period := p.period
	switch {
	case len(p.vm.decided) > 0:
		period = 1
	case period != tickEvery:
		period = uint32(min(max(p.ticked+tickEvery-now, 1), tickEvery))
	}
	if period != p.period {
		p.period = period
		p.host.Effective(p.context)
		p.host.SetTick(period)
	}
}

// started is how long after the first requests of a plugin configuration Envoy may still start VMs
// for it. It starts one per worker, at the same time.
const started lease.Millis = 5000

// serving is a record in shared data: since when VMs with one plugin configuration and one version of
// the filter serve requests. It outlives these VMs.
type serving struct {
	store table.Store
	key   []byte
	since lease.Millis // 0: there is no record
}

func (s *serving) read(store table.Store, config uint64) {
	s.store = store
	s.key = binary.LittleEndian.AppendUint64([]byte("serving "+version.Version+" "), config)
	if raw, _, ok := store.Get(s.key); ok {
		s.since = lease.Millis(binary.LittleEndian.Uint64(raw))
	}
}

// note writes the record at a request, unless another worker was faster.
func (s *serving) note(h Host) {
	if s.since == 0 {
		s.since = h.Now()
		s.store.Set(s.key, binary.LittleEndian.AppendUint64(nil, uint64(s.since)), table.Absent)
	}
}

// checkReplaced reports a VM that Envoy has started in place of one that crashed. p is the VM's first
// plugin.
func (p *plugin) checkReplaced(now lease.Millis) {
	if p.serving.since > 0 && now > p.serving.since+started {
		p.stats.replaced(p.host)
		p.worker.Problem(now, "a VM of the filter crashed, and Envoy replaced it; report this, with Envoy's log")
	}
}

// stream is a request that the filter has to do something for later: it waits, or
// its response gets headers, or it holds slots or counts as in flight.
type stream struct {
	plugin  *plugin
	request edge.Request
	next    *stream // of its chain
}

// streams are found by their context. Contexts count up, so that their lower 12 bits spread streams
// over all chains. A map of Go's runs ten times as much code for a request.
type streams [1 << 12]*stream

func (t *streams) chain(context uint32) **stream { return &t[context%uint32(len(t))] }

func (t *streams) find(context uint32) *stream {
	s := *t.chain(context)
	for s != nil && s.request.Stream != context {
		s = s.next
	}
	return s
}

func (t *streams) add(s *stream) {
	c := t.chain(s.request.Stream)
	s.next, *c = *c, s
}

func (t *streams) remove(s *stream) {
	at := t.chain(s.request.Stream)
	for *at != s {
		at = &(*at).next
	}
	*at, s.next = s.next, nil
}

func (m *VM) acquire(p *plugin) *stream {
	if n := len(m.free); n > 0 {
		s := m.free[n-1]
		m.free = m.free[:n-1]
		s.plugin = p
		return s
	}
	return &stream{plugin: p}
}

func (m *VM) release(s *stream) {
	if len(m.free) < 1024 {
		m.free = append(m.free, s)
	}
}
