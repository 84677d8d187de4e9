//lint:file-ignore U1000 Envoy calls what is exported here, which the linter does not see

package filter

import (
	"runtime"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// The functions of the Proxy-Wasm ABI 0.2 that the filter calls, as Envoy implements them.
// https://github.com/proxy-wasm/spec/tree/main/abi-versions/v0.2.1

//go:wasmimport env proxy_log
func proxyLog(level uint32, message unsafe.Pointer, size uint32) uint32

//go:wasmimport env proxy_set_tick_period_milliseconds
func proxySetTickPeriod(ms uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func proxyGetBuffer(buffer, start, most uint32, data, size unsafe.Pointer) uint32

//go:wasmimport env proxy_get_header_map_pairs
func proxyGetHeaders(kind uint32, data, size unsafe.Pointer) uint32

//go:wasmimport env proxy_get_header_map_value
func proxyGetHeader(kind uint32, name unsafe.Pointer, nameSize uint32, data, size unsafe.Pointer) uint32

//go:wasmimport env proxy_add_header_map_value
func proxyAddHeader(kind uint32, name unsafe.Pointer, nameSize uint32, value unsafe.Pointer, valueSize uint32) uint32

//go:wasmimport env proxy_replace_header_map_value
func proxyReplaceHeader(kind uint32, name unsafe.Pointer, nameSize uint32, value unsafe.Pointer, valueSize uint32) uint32

//go:wasmimport env proxy_get_property
func proxyGetProperty(path unsafe.Pointer, pathSize uint32, data, size unsafe.Pointer) uint32

//go:wasmimport env proxy_set_property
func proxySetProperty(path unsafe.Pointer, pathSize uint32, value unsafe.Pointer, valueSize uint32) uint32

//go:wasmimport env proxy_send_local_response
func proxyRespond(status uint32, details unsafe.Pointer, detailsSize uint32, body unsafe.Pointer, bodySize uint32,
	headers unsafe.Pointer, headersSize uint32, grpcStatus int32) uint32

//go:wasmimport env proxy_continue_stream
func proxyContinue(kind uint32) uint32

//go:wasmimport env proxy_set_effective_context
func proxySetEffective(context uint32) uint32

//go:wasmimport env proxy_http_call
func proxyCall(cluster unsafe.Pointer, clusterSize uint32, headers unsafe.Pointer, headersSize uint32,
	body unsafe.Pointer, bodySize uint32, trailers unsafe.Pointer, trailersSize uint32, timeout uint32, id unsafe.Pointer) uint32

//go:wasmimport env proxy_get_shared_data
func proxyGetShared(key unsafe.Pointer, keySize uint32, data, size, version unsafe.Pointer) uint32

//go:wasmimport env proxy_set_shared_data
func proxySetShared(key unsafe.Pointer, keySize uint32, value unsafe.Pointer, valueSize, version uint32) uint32

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, name unsafe.Pointer, nameSize uint32, id unsafe.Pointer) uint32

//go:wasmimport env proxy_increment_metric
func proxyIncrement(metric uint32, n int64) uint32

//go:wasmimport env proxy_record_metric
func proxyRecord(metric uint32, value uint64) uint32

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTime(clock uint32, precision uint64, ns unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 random_get
func randomGet(data unsafe.Pointer, size uint32) uint32

// Numbers of the ABI.
const (
	statusOK       = 0
	statusMismatch = 8 // of a version of shared data

	requestHeaders  = 0
	responseHeaders = 2
	answerHeaders   = 6

	callBody     = 4
	pluginConfig = 7

	proceed = 0
	pause   = 1

	clockWall      = 0
	clockMonotonic = 1
)

// The host asks proxy_on_memory_allocate, exported below, for memory and writes there what
// it returns: into one buffer for each kind of answer, so that a request leaves no garbage.
// Each buffer is valid until the next call of its kind. There is one thread.
var (
	landing     *[]byte // where the next answer goes
	forHeaders  = make([]byte, 16<<10)
	forValue    = make([]byte, 4<<10)
	forProperty = make([]byte, 128)
	forShared   = make([]byte, 16<<10)
	forCall     = make([]byte, 64<<10)

	fetched []byte // all request headers of the stream, if they were fetched

	// The host writes results here. Local variables would be moved to the heap in each
	// call.
	outData    unsafe.Pointer
	outSize    uint32
	outVersion uint32
	outID      uint32
	outTime    uint64
)

//go:wasmexport proxy_on_memory_allocate
func memory(size uint32) unsafe.Pointer {
	if landing == nil || uint32(len(*landing)) < size {
		b := make([]byte, max(size, 1))
		if landing == nil {
			return unsafe.Pointer(unsafe.SliceData(b))
		}
		*landing = b
	}
	return unsafe.Pointer(unsafe.SliceData(*landing))
}

// landed returns what the host has written into *to; nil if that is nothing.
func landed(to *[]byte, status uint32) []byte {
	landing = nil
	if status != statusOK || outSize == 0 {
		return nil
	}
	return (*to)[:outSize:outSize]
}

func await(to *[]byte) { landing, outSize = to, 0 }

func ptr(b []byte) unsafe.Pointer  { return unsafe.Pointer(unsafe.SliceData(b)) }
func sptr(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// abi is the host.
type abi struct{}

func (abi) Log(level Level, message string) {
	proxyLog(uint32(level), sptr(message), uint32(len(message)))
}

func (abi) Now() lease.Millis {
	clockTime(clockMonotonic, 0, unsafe.Pointer(&outTime))
	return lease.Millis(outTime / 1e6)
}

func (abi) Wall() limit.Micros {
	clockTime(clockWall, 0, unsafe.Pointer(&outTime))
	return limit.Micros(outTime / 1e3)
}

func (abi) Entropy() (words [6]uint64) {
	randomGet(unsafe.Pointer(&words), uint32(unsafe.Sizeof(words)))
	return words
}

func (abi) SetTick(ms uint32) { proxySetTickPeriod(ms) }

func (abi) PluginConfig(size int) []byte { return buffer(pluginConfig, size) }

func buffer(kind, size int) []byte {
	await(&forCall)
	return landed(&forCall, proxyGetBuffer(uint32(kind), 0, uint32(size), unsafe.Pointer(&outData), unsafe.Pointer(&outSize)))
}

// headers fetches all request headers of the stream, at most once in a callback.
func headers() pairs {
	if fetched == nil {
		await(&forHeaders)
		fetched = landed(&forHeaders, proxyGetHeaders(requestHeaders, unsafe.Pointer(&outData), unsafe.Pointer(&outSize)))
	}
	return pairsOf(fetched)
}

func (abi) AddHeaders(in *rule.Request, of *Wanted) { headers().addTo(in, of) }

func (abi) Header(name string) (string, bool) {
	if fetched == nil {
		return headerOf(requestHeaders, name)
	}
	value, n := headers().valueOf(name)
	return value, n > 0
}

func (abi) ResponseHeader(name string) (string, bool) { return headerOf(responseHeaders, name) }

// ResponseTrailer returns nothing: the module exports no callback for trailers, which every response with trailers would pay for.
func (abi) ResponseTrailer(string) (string, bool) { return "", false }

// ResponseNumber returns nothing: the module exports no callback for bodies either.
func (abi) ResponseNumber(string) (string, bool) { return "", false }

func headerOf(kind uint32, name string) (string, bool) {
	await(&forValue)
	status := proxyGetHeader(kind, sptr(name), uint32(len(name)), unsafe.Pointer(&outData), unsafe.Pointer(&outSize))
	return text(landed(&forValue, status)), status == statusOK
}

func (h abi) PluginName() string {
	name, _ := h.Property("plugin_name")
	return name
}

func (abi) Property(path string) (string, bool) {
	await(&forProperty)
	status := proxyGetProperty(sptr(path), uint32(len(path)), unsafe.Pointer(&outData), unsafe.Pointer(&outSize))
	return text(landed(&forProperty, status)), status == statusOK
}

func (abi) AddResponseHeader(name, value string) {
	proxyAddHeader(responseHeaders, sptr(name), uint32(len(name)), sptr(value), uint32(len(value)))
}

func (abi) ReplaceResponseHeader(name, value string) {
	proxyReplaceHeader(responseHeaders, sptr(name), uint32(len(name)), sptr(value), uint32(len(value)))
}

// KeepsHeaders is false: Envoy takes headers of a response when it is there.
func (abi) KeepsHeaders() bool { return false }

// Span is the client's: Envoy's own is not known before the router.
func (abi) Span() string { return headers().sole("traceparent") }

func (abi) SetState(name, value string) {
	proxySetProperty(sptr(name), uint32(len(name)), sptr(value), uint32(len(value)))
}

func (abi) Respond(status int, details string, headers, body []byte, grpcStatus int) {
	proxyRespond(uint32(status), sptr(details), uint32(len(details)), ptr(body), uint32(len(body)),
		ptr(headers), uint32(len(headers)), int32(grpcStatus))
}

func (abi) Resume() { proxyContinue(0) }

func (abi) Effective(context uint32) {
	fetched = nil
	proxySetEffective(context)
}

// Wake is false: only callbacks of a stream run in its own time.
func (abi) Wake(uint32) bool { return false }

func (h abi) Store(identity uint64) table.Store { return newSpace(h, identity) }

func (abi) Call(cluster string, headers, body []byte, timeout lease.Millis) (uint32, bool) {
	var none [4]byte // a map without entries
	status := proxyCall(sptr(cluster), uint32(len(cluster)), ptr(headers), uint32(len(headers)),
		ptr(body), uint32(len(body)), unsafe.Pointer(&none), uint32(len(none)), uint32(timeout), unsafe.Pointer(&outID))
	return outID, status == statusOK
}

func (abi) Answer(bodySize int) (string, []byte) {
	status, _ := headerOf(answerHeaders, ":status")
	if bodySize == 0 {
		return status, nil
	}
	return status, buffer(callBody, bodySize)
}

func (abi) Counter(name string) uint32   { return define(0, name) }
func (abi) Gauge(name string) uint32     { return define(1, name) }
func (abi) Histogram(name string) uint32 { return define(2, name) }

func define(kind uint32, name string) uint32 {
	proxyDefineMetric(kind, sptr(name), uint32(len(name)), unsafe.Pointer(&outID))
	return outID
}

func (abi) Add(m uint32, n int64)     { proxyIncrement(m, n) }
func (abi) Record(m uint32, v uint64) { proxyRecord(m, v) }

// Get and Set are a [table.Store] on shared data, under the keys of [space].
func (abi) Get(key []byte) ([]byte, uint32, bool) {
	await(&forShared)
	status := proxyGetShared(ptr(key), uint32(len(key)), unsafe.Pointer(&outData), unsafe.Pointer(&outSize), unsafe.Pointer(&outVersion))
	return landed(&forShared, status), outVersion, status == statusOK
}

func (abi) Set(key, value []byte, version uint32) table.Outcome {
	switch proxySetShared(ptr(key), uint32(len(key)), ptr(value), uint32(len(value)), version) {
	case statusOK:
		return table.Stored
	case statusMismatch:
		return table.Raced
	}
	return table.Failed
}

// collected is what the VM had allocated in its life when it last collected, kept what it had then.
var collected, kept uint64

// collectAfter is how many bytes are allocated before the next collection, at least: a flood of new keys
// must not have a large heap looked through at every tick. A larger number costs memory, not time: with
// 8 MiB a worker takes 12 MB more under load.
const collectAfter = 1 << 20

// Collect collects garbage when enough has gathered. Left to itself
// the collector starts in the middle of requests and hardly ever ends there: it
// works when nothing else runs, and in a VM nothing runs between callbacks, so
// that write barriers slow every request down. envoy/pop.yaml therefore sets
// GOGC=off, with GOMEMLIMIT for the case that ticks fail.
func (abi) Collect() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if mem.TotalAlloc-collected < max(collectAfter, kept) {
		return
	}
	runtime.GC()
	runtime.ReadMemStats(&mem)
	collected, kept = mem.TotalAlloc, mem.HeapAlloc
}

// The callbacks. Envoy calls only those that a module exports: the others (creation of
// streams, bodies, trailers, access log) cost nothing.

//go:wasmexport proxy_abi_version_0_2_0
func abiVersion() {}

//go:wasmexport proxy_on_configure
func onConfigure(context uint32, size uint32) uint32 {
	module.Configure(context, int(size))
	return 1 // a plugin that does not start stops Envoy
}

//go:wasmexport proxy_on_tick
func onTick(context uint32) { module.Tick(context) }

//go:wasmexport proxy_on_http_call_response
func onCallResponse(context, id, headers, bodySize, trailers uint32) {
	module.CallResponse(context, id, int(bodySize))
}

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(context, headers, endOfStream uint32) uint32 {
	fetched = nil
	if module.RequestHeaders(context) {
		return pause
	}
	return proceed
}

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(context, headers, endOfStream uint32) uint32 {
	module.ResponseHeaders(context, false)
	return proceed
}

//go:wasmexport proxy_on_delete
func onDelete(context uint32) { module.Deleted(context) }

var module = NewVM(abi{}, nil)
