package main

// #include "abi.h"
//
// #cgo nocallback weir_headers
// #cgo noescape weir_headers
// #cgo nocallback weir_header
// #cgo noescape weir_header
// #cgo nocallback weir_attribute
// #cgo noescape weir_attribute
// #cgo nocallback weir_put_header
// #cgo noescape weir_put_header
// #cgo nocallback weir_set_states
// #cgo noescape weir_set_states
// #cgo nocallback weir_span
// #cgo noescape weir_span
// #cgo noescape weir_respond
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/filter"
)

// pluginContext is the only plugin of each VM. No stream has this number.
const pluginContext = 0

// worker decides the requests of one thread of Envoy under one configuration. It is the host of its VM.
type worker struct {
	config *config
	number C.uint32_t

	mu      sync.Mutex
	vm      *filter.VM
	waiting map[uint32]*C.stream // requests, by id
	calls   []outgoing           // that the main thread has to make
	called  uint32               // id of the last one
	metrics []metric             // by the numbers that the VM has
	numbers map[string]uint32    // by their names

	// Of the hook that runs, which holds the mutex.
	current *C.stream
	answer  *reply // of the current stream
	resumed bool   // the current stream
	states  []byte // of the current stream, see publish
	buffers struct{ headers, value, response, property []byte }

	spare []*reply
}

// outgoing is a call that is not made yet.
type outgoing struct {
	id            uint32
	cluster       string
	headers, body []byte
	timeout       lease.Millis
}

// reply is a response of the filter. Envoy gets it when no lock is held.
type reply struct {
	status                 int
	headers, body, details []byte
}

func newWorker(c *config) *worker {
	w := &worker{config: c, waiting: map[uint32]*C.stream{}, numbers: map[string]uint32{}}
	if !w.enrol() {
		logLine(filter.LogError, "weir: too many configurations of the filter are alive")
		return nil
	}
	vm := filter.NewVM(w, first)
	if first == nil {
		first = vm
	}
	vm.Configure(pluginContext, len(c.text))
	w.vm = vm
	return w
}

// workers are all that are alive, by the numbers that C has of them. Each request looks its worker up.
var workers [1 << 14]atomic.Pointer[worker]

func workerOf(number C.uint32_t) *worker { return workers[number].Load() }

// enrol gives the worker a number; false if there is none left.
func (w *worker) enrol() bool {
	for i := range workers {
		if workers[i].CompareAndSwap(nil, w) {
			w.number = C.uint32_t(i)
			return true
		}
	}
	return false
}

// locked runs f with the mutex, on the main thread.
func (w *worker) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// begin takes the mutex, and has calls of the host act on a stream until end.
func (w *worker) begin(s *C.stream) {
	w.mu.Lock()
	w.current, w.answer, w.resumed, w.states = s, nil, false, w.states[:0]
}

func (w *worker) end() {
	defer w.mu.Unlock()
	w.publish()
	w.current.kept = C.bool(w.vm.Keeps(uint32(w.current.id)))
	w.current = nil
}

//export weirRequestHeaders
func weirRequestHeaders(number C.uint32_t, s *C.stream) (pause C.bool) {
	defer recovered("http_filter_request_headers")
	w, of := workerOf(number), s.filter
	waits, answer := w.decide(s)
	if answer != nil {
		w.respond(of, answer)
	}
	return C.bool(waits || answer != nil)
}

// decide decides a request.
func (w *worker) decide(s *C.stream) (waits bool, answer *reply) {
	w.begin(s)
	defer w.end()
	id := uint32(s.id)
	if waits = w.vm.RequestHeaders(id); waits && w.answer == nil && w.vm.Keeps(id) {
		w.waiting[id] = s
		if s.scheduler == nil {
			s.scheduler = C.envoy_dynamic_module_callback_http_filter_scheduler_new(s.filter)
		}
	}
	return waits, w.answer
}

// respond answers a request. Envoy may destroy its stream before that returns.
func (w *worker) respond(of unsafe.Pointer, r *reply) {
	C.weir_respond(of, C.uint32_t(r.status), bytesPtr(r.headers), C.size_t(len(r.headers)),
		bytesPtr(r.body), C.size_t(len(r.body)), bytesPtr(r.details), C.size_t(len(r.details)))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spare) < 16 {
		w.spare = append(w.spare, r)
	}
}

//export weirScheduled
func weirScheduled(number C.uint32_t, s *C.stream) {
	defer recovered("http_filter_scheduled")
	w, of := workerOf(number), s.filter
	if answer, resumed := w.finish(s); answer != nil {
		w.respond(of, answer)
	} else if resumed {
		C.envoy_dynamic_module_callback_http_filter_continue_decoding(of)
	}
}

// finish finishes a request that waited.
func (w *worker) finish(s *C.stream) (answer *reply, resumed bool) {
	w.begin(s)
	defer w.end()
	delete(w.waiting, uint32(s.id))
	w.vm.Finish(uint32(s.id))
	return w.answer, w.resumed
}

//export weirResponseHeaders
func weirResponseHeaders(number C.uint32_t, s *C.stream) {
	defer recovered("http_filter_response_headers")
	w := workerOf(number)
	w.begin(s)
	defer w.end()
	w.vm.ResponseHeaders(uint32(s.id))
}

//export weirDestroyed
func weirDestroyed(number C.uint32_t, s *C.stream) {
	defer recovered("http_filter_destroy")
	w := workerOf(number)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, uint32(s.id))
	w.vm.Deleted(uint32(s.id))
}

// The rest is the host of the VM. The mutex is held.

func (w *worker) Log(level filter.Level, message string) { logLine(level, message) }

// epoch is ten days before the process began, so that no time of the filter is near zero.
var epoch = time.Now().Add(-10 * 24 * time.Hour)

func (w *worker) Now() lease.Millis { return lease.Millis(time.Since(epoch) / time.Millisecond) }

func (w *worker) Wall() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }

func (w *worker) Entropy() (words [6]uint64) {
	var raw [48]byte
	_, _ = rand.Read(raw[:]) // it never fails
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return words
}

// SetTick does nothing: no stream waits for a tick, and the goroutine of the configuration keeps the period.
func (w *worker) SetTick(uint32) {}

// Collect does nothing: Go collects beside the requests.
func (w *worker) Collect() {}

func (w *worker) PluginConfig(int) []byte { return w.config.text }

func (w *worker) PluginName() string { return w.config.name }

func (w *worker) Store(identity uint64) table.Store { return &store{space: spaceOf(identity)} }

// fetch has get copy into a buffer, which grows to what it needs. What the filter keeps too long then is memory of Go, not
// of an Envoy that has freed it.
func fetch(b *[]byte, get func(into *C.char, most C.size_t) (size C.size_t)) []byte {
	for {
		n := int(get(bytesPtr(*b), C.size_t(len(*b))))
		if n <= len(*b) {
			return (*b)[:n:n]
		}
		*b = make([]byte, n+n/2)
	}
}

func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (w *worker) Headers() []byte {
	if w.current == nil {
		return nil
	}
	return fetch(&w.buffers.headers, func(into *C.char, most C.size_t) C.size_t {
		return C.weir_headers(w.current.filter, into, most)
	})
}

func (w *worker) Header(name string) (string, bool) {
	return w.headerOf(C.request_headers, name, &w.buffers.value)
}

func (w *worker) ResponseHeader(name string) (string, bool) {
	return w.headerOf(C.response_headers, name, &w.buffers.response)
}

func (w *worker) headerOf(kind C.int, name string, b *[]byte) (value string, ok bool) {
	if w.current == nil {
		return "", false
	}
	var found C.bool
	value = textOf(fetch(b, func(into *C.char, most C.size_t) C.size_t {
		return C.weir_header(w.current.filter, kind, chars(name), C.size_t(len(name)), into, most, &found)
	}))
	return value, bool(found)
}

// attributes are the numbers of Envoy's attributes by the paths of package filter.
var attributes = map[string]C.int{
	filter.PeerAddress: C.source_address,
	filter.RouteName:   C.route_name,
	filter.URISAN:      C.uri_san_of_peer,
	filter.DNSSAN:      C.dns_san_of_peer,
}

func (w *worker) Property(path string) (value string, ok bool) {
	attribute, ok := attributes[path]
	if !ok {
		w.noClaims()
	}
	if !ok || w.current == nil {
		return "", false
	}
	var found C.bool
	value = textOf(fetch(&w.buffers.property, func(into *C.char, most C.size_t) C.size_t {
		return C.weir_attribute(w.current.filter, attribute, into, most, &found)
	}))
	return value, bool(found)
}

// noClaims logs once that rules ask for claims: dynamic modules do not reach into the structs of metadata.
func (w *worker) noClaims() {
	if !w.config.told.Swap(true) {
		logLine(filter.LogError, "weir: the rules look at claims of tokens, which the native module cannot read: they count as missing; have jwt_authn copy them into headers (claim_to_headers), or use the WASM module")
	}
}

func (w *worker) AddResponseHeader(name, value string)     { w.putHeader(false, name, value) }
func (w *worker) ReplaceResponseHeader(name, value string) { w.putHeader(true, name, value) }

func (w *worker) putHeader(replace bool, name, value string) {
	if w.current != nil {
		C.weir_put_header(w.current.filter, C.bool(replace), chars(name), C.size_t(len(name)), chars(value), C.size_t(len(value)))
	}
}

// SetState keeps the value for publish. Metadata is for others, which may reject all of it for one byte that is not UTF-8.
func (w *worker) SetState(name, value string) {
	clean := value
	if !utf8.ValidString(value) {
		clean = strings.ToValidUTF8(value, "\uFFFD")
	}
	for _, text := range []string{name, value, clean} {
		w.states = binary.LittleEndian.AppendUint32(w.states, uint32(len(text)))
		w.states = append(w.states, text...)
	}
}

// publish puts what SetState was given on the stream: as filter state under the names that it has with the WASM module,
// so that formats of access logs fit both, and as dynamic metadata of the namespace weir, for other filters.
func (w *worker) publish() {
	if len(w.states) > 0 && w.current != nil {
		C.weir_set_states(w.current.filter, bytesPtr(w.states), C.size_t(len(w.states)))
	}
}

// Span is the traceparent of Envoy's span of the request, also where the client began no trace. The ABI does not tell
// whether it is sampled: the client's flag does, or else the request id, in which Envoy keeps that.
func (w *worker) Span(client string) string {
	var ids [48]byte
	if w.current == nil || !C.weir_span(w.current.filter, bytesPtr(ids[:])) {
		return client
	}
	flags := "-00"
	if client != "" {
		flags = client[max(0, len(client)-3):]
	} else if id, _ := w.Header("x-request-id"); len(id) == 36 && strings.IndexByte("9ab", id[14]) >= 0 {
		flags = "-01"
	}
	return "00-" + string(ids[:32]) + "-" + string(ids[32:]) + flags
}

// Respond keeps the response until the mutex is free. headers have the status of gRPC.
func (w *worker) Respond(status int, details string, headers, body []byte, _ int) {
	r := &reply{}
	if n := len(w.spare); n > 0 {
		r, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	r.status = status
	r.headers, r.body, r.details = append(r.headers[:0], headers...), append(r.body[:0], body...), append(r.details[:0], details...)
	w.answer = r
}

func (w *worker) Resume() { w.resumed = true }

// Effective does nothing: hooks act on their own stream, and calls know their worker.
func (w *worker) Effective(uint32) {}

// Wake is always true: no other thread may finish a stream. One that is not there has ended.
func (w *worker) Wake(id uint32) bool {
	if s := w.waiting[id]; s != nil {
		C.envoy_dynamic_module_callback_http_filter_scheduler_commit(s.scheduler, 0)
	}
	return true
}

// Call leaves the call to the main thread; while a configuration is loaded to its first tick, because Envoy may not have
// its clusters before.
func (w *worker) Call(cluster string, headers, body []byte, timeout lease.Millis) (id uint32, ok bool) {
	w.called++
	w.calls = append(w.calls, outgoing{w.called, cluster, append([]byte(nil), headers...), body, timeout})
	if w.vm != nil && !w.config.calling.Swap(true) {
		w.config.commit(eventCalls)
	}
	return w.called, true
}

func (w *worker) Answer(int) (status string, body []byte) { return w.config.status, w.config.body }
