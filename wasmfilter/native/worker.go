package main

// #include "abi.h"
//
// #cgo nocallback weir_response_header
// #cgo noescape weir_response_header
// #cgo nocallback weir_attribute
// #cgo noescape weir_attribute
// #cgo nocallback weir_metadata
// #cgo noescape weir_metadata
// #cgo nocallback weir_span
// #cgo noescape weir_span
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
	"github.com/weirlimit/weir/internal/rule"
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
	kinds   map[string]C.int     // types that metadata had last, see weir_metadata
	bodies  map[uint32]*body     // of responses of which a number is needed, by streams

	// Of the hook that runs, which holds the mutex.
	current *C.stream
	headers []C.header // of the request, in Envoy's memory
	texts   []byte     // what the filter has got of them
	resumed bool       // the current stream
	tasks   []byte     // of the current stream, see abi.h
	buffers struct{ response, property []byte }
}

// outgoing is a call that is not made yet.
type outgoing struct {
	id            uint32
	cluster       string
	headers, body []byte
	timeout       lease.Millis
}

func newWorker(c *config) *worker {
	w := &worker{config: c, waiting: map[uint32]*C.stream{}, numbers: map[string]uint32{}, kinds: map[string]C.int{}, bodies: map[uint32]*body{}}
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
func (w *worker) begin(s *C.stream, headers *C.header, count C.size_t) {
	w.mu.Lock()
	w.current, w.headers, w.resumed = s, unsafe.Slice(headers, int(count)), false
	w.texts, w.tasks = w.texts[:0], w.tasks[:0]
}

func (w *worker) end() {
	defer w.mu.Unlock()
	s := w.current
	w.current, w.headers = nil, nil
	if s.kept = C.bool(w.vm.Keeps(uint32(s.id))); !s.kept {
		w.forget(s)
	}
	if n := C.uint32_t(len(w.tasks)); n <= s.room || C.weir_grow(s, n) {
		s.size = n
		copy(unsafe.Slice((*byte)(unsafe.Pointer(s.tasks)), len(w.tasks)), w.tasks)
	}
}

// weirRequestHeaders decides a request. True has it wait, or the response is among the tasks.
//
//export weirRequestHeaders
func weirRequestHeaders(number C.uint32_t, s *C.stream, headers *C.header, count C.size_t) (pause C.bool) {
	defer recovered("http_filter_request_headers")
	w, id := workerOf(number), uint32(s.id)
	w.begin(s, headers, count)
	defer w.end()
	waits := w.vm.RequestHeaders(id)
	if waits && s.status == 0 && w.vm.Keeps(id) {
		w.waiting[id] = s
		if s.scheduler == nil {
			s.scheduler = C.envoy_dynamic_module_callback_http_filter_scheduler_new(s.filter)
		}
	}
	return C.bool(waits)
}

// weirScheduled finishes a request that waited. True has it go on.
//
//export weirScheduled
func weirScheduled(number C.uint32_t, s *C.stream, headers *C.header, count C.size_t) (resumed C.bool) {
	defer recovered("http_filter_scheduled")
	w := workerOf(number)
	w.begin(s, headers, count)
	defer w.end()
	delete(w.waiting, uint32(s.id))
	w.vm.Finish(uint32(s.id))
	return C.bool(w.resumed)
}

//export weirResponseHeaders
func weirResponseHeaders(number C.uint32_t, s *C.stream, end C.bool) {
	defer recovered("http_filter_response_headers")
	w := workerOf(number)
	w.begin(s, nil, 0)
	defer w.end()
	w.vm.ResponseHeaders(uint32(s.id), !bool(end))
	w.read(s)
}

// weirResponseTrailers takes the trailers of a response with their grpc-status.
//
//export weirResponseTrailers
func weirResponseTrailers(number C.uint32_t, s *C.stream, status C.buffer) {
	defer recovered("http_filter_response_trailers")
	w := workerOf(number)
	w.begin(s, nil, 0)
	defer w.end()
	w.vm.ResponseTrailers(uint32(s.id), w.copied(status.ptr, status.length))
}

//export weirDestroyed
func weirDestroyed(number C.uint32_t, s *C.stream) {
	defer recovered("http_filter_destroy")
	w := workerOf(number)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = s
	defer func() { w.current = nil }()
	delete(w.waiting, uint32(s.id))
	w.vm.Deleted(uint32(s.id))
	w.forget(s)
}

// forget drops the body of a stream of which the VM needs no number any more.
func (w *worker) forget(s *C.stream) {
	delete(w.bodies, uint32(s.id))
	s.reads = false
}

// The rest is the host of the VM. The mutex is held.

func (w *worker) Log(level filter.Level, message string) { logLine(level, message) }

// epoch is ten days before the process began, so that no time of the filter is near zero.
var epoch = time.Now().Add(-10 * 24 * time.Hour)

func (w *worker) Now() lease.Millis { return lease.Millis(time.Since(epoch) / time.Millisecond) }

func (w *worker) Wall() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }

func (w *worker) Entropy() (words [6]uint64) {
	_ = binary.Read(rand.Reader, binary.LittleEndian, &words) // it never fails
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

// view is memory of Envoy as a string, valid as long as the hook runs.
func view(p *C.char, n C.size_t) string { return unsafe.String((*byte)(unsafe.Pointer(p)), int(n)) }

// copied is a copy of memory of Envoy, valid until the next hook begins. What the filter keeps too long then is memory of
// Go, not of an Envoy that has freed it.
func (w *worker) copied(p *C.char, n C.size_t) string {
	start := len(w.texts)
	w.texts = append(w.texts, view(p, n)...)
	return textOf(w.texts[start:])
}

func (w *worker) AddHeaders(in *rule.Request, of *filter.Wanted) {
	for i := range w.headers {
		if h := &w.headers[i]; of.May(int(h.name_length)) {
			in.Add(of.Inputs, view(h.name, h.name_length), w.copied(h.value, h.value_length))
		}
	}
}

func (w *worker) Header(name string) (string, bool) {
	value, n := w.valueOf(name)
	return value, n > 0
}

// valueOf returns the first value of a request header, and how many it has.
func (w *worker) valueOf(name string) (value string, n int) {
	for i := range w.headers {
		if h := &w.headers[i]; view(h.name, h.name_length) == name {
			if n++; n == 1 {
				value = w.copied(h.value, h.value_length)
			}
		}
	}
	return value, n
}

func (w *worker) ResponseHeader(name string) (value string, ok bool) {
	return w.ofResponse(C.response_headers, name)
}

func (w *worker) ResponseTrailer(name string) (value string, ok bool) {
	return w.ofResponse(C.response_trailers, name)
}

func (w *worker) ofResponse(kind C.int, name string) (value string, ok bool) {
	if w.current == nil {
		return "", false
	}
	var found C.bool
	value = textOf(fetch(&w.buffers.response, func(into *C.char, most C.size_t) C.size_t {
		return C.weir_response_header(w.current.filter, kind, chars(name), C.size_t(len(name)), into, most, &found)
	}))
	return value, bool(found)
}

// attributes are the numbers of Envoy's attributes by the paths of package filter.
var attributes = map[string]C.int{
	filter.PeerAddress: C.source_address,
	filter.RouteName:   C.route_name,
	filter.URISAN:      C.uri_san_of_peer,
	filter.DNSSAN:      C.dns_san_of_peer,
	filter.CodeDetails: C.response_code_details,
}

func (w *worker) Property(path string) (value string, ok bool) {
	if w.current == nil {
		return "", false
	}
	var found C.bool
	if of, isMetadata := strings.CutPrefix(path, filter.MetadataOf); isMetadata {
		space, key, _ := strings.Cut(of, "\x00")
		if strings.IndexByte(key, 0) >= 0 {
			w.noClaims()
			return "", false
		}
		kind := w.kinds[of]
		last := kind
		value = textOf(fetch(&w.buffers.property, func(into *C.char, most C.size_t) C.size_t {
			found = false
			return C.weir_metadata(w.current.filter, chars(space), C.size_t(len(space)), chars(key), C.size_t(len(key)), into, most, &found, &kind)
		}))
		if bool(found) && kind != last {
			w.kinds[of] = kind
		}
		return value, bool(found)
	}
	attribute, ok := attributes[path]
	if !ok {
		return "", false
	}
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

// task has C do something with the stream when the hook has returned, or at its response.
func (w *worker) task(what uint32, first, second string) {
	for _, n := range [...]uint32{what, uint32(len(first)), uint32(len(second))} {
		w.tasks = binary.LittleEndian.AppendUint32(w.tasks, n)
	}
	w.tasks = append(append(w.tasks, first...), second...)
}

func (w *worker) AddResponseHeader(name, value string)     { w.task(C.add_header, name, value) }
func (w *worker) ReplaceResponseHeader(name, value string) { w.task(C.set_header, name, value) }

func (w *worker) KeepsHeaders() bool { return true }

// SetState sets filter state under the name that it has with the WASM module, so that formats of access logs fit both, and
// dynamic metadata of the namespace weir, for other filters: rule for weir.rule, and decision for weir. Metadata may be
// rejected as a whole for one byte that is not UTF-8.
func (w *worker) SetState(name, value string) {
	w.task(C.set_state, "wasm."+name, value)
	short, ok := strings.CutPrefix(name, "weir.")
	if !ok {
		short = "decision"
	}
	if !utf8.ValidString(value) {
		value = strings.ToValidUTF8(value, "\uFFFD")
	}
	w.task(C.set_metadata, short, value)
}

// Span is the traceparent of Envoy's span of the request, also where the client began no trace. The ABI does not tell
// whether it is sampled: the client's flag does, or else the request id, in which Envoy keeps that.
func (w *worker) Span() string {
	var ids [48]byte
	client, n := w.valueOf("traceparent")
	if n > 1 {
		client = ""
	}
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

// Respond answers the stream. headers have the status of gRPC.
func (w *worker) Respond(status int, details string, headers, body []byte, _ int) {
	w.current.status = C.uint32_t(status)
	w.task(C.respond_with, "", textOf(headers))
	w.task(C.respond, details, textOf(body))
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
