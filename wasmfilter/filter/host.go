package filter

import (
	"encoding/binary"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Host is what the filter needs of Envoy, in the terms of the filter. The WASM module implements it by the Proxy-Wasm
// ABI, the native module (wasmfilter/native) by the ABI of Envoy's dynamic modules; tests have an Envoy of their own.
//
// Calls "of the stream" act on the stream whose callback runs, or on the one that Effective has named since.
type Host interface {
	Log(level Level, message string)
	// Now is a monotonic clock that all workers share.
	Now() lease.Millis
	Wall() limit.Micros
	Entropy() [6]uint64
	SetTick(ms uint32)
	PluginConfig(size int) []byte
	// PluginName is the name that the bootstrap gives the plugin that is configured, or of
	// the stream, valid until the next property.
	PluginName() string
	// Store returns the memory that all workers share, of plugins with one identity.
	Store(identity uint64) table.Store
	// Collect is called when nothing else is to do: at each tick.
	Collect()

	// AddHeaders adds the request headers of the stream to in that rules look at, valid until the next callback.
	AddHeaders(in *rule.Request, of *Wanted)
	// Header returns a request header of the stream, the first one of this name, valid until the next callback.
	Header(name string) (value string, ok bool)
	// Property returns what Envoy knows of the stream, valid until the next property: names,
	// each but the last with a zero byte behind it.
	Property(path string) (value string, ok bool)
	// ResponseHeader is Header for the response of the stream.
	ResponseHeader(name string) (value string, ok bool)
	// ResponseTrailer is Header for the trailers of the response; none in a host that does not call ResponseTrailers.
	ResponseTrailer(name string) (value string, ok bool)
	// ResponseNumber returns the number with this path in the body of the response, as it is written; none in a host that does
	// not look at [VM.BodyPaths].
	ResponseNumber(path string) (value string, ok bool)
	AddResponseHeader(name, value string)
	ReplaceResponseHeader(name, value string)
	// KeepsHeaders is true if headers may be added and replaced before there is a response: the host keeps them
	// for it. False: the VM does that in ResponseHeaders.
	KeepsHeaders() bool
	// Span returns the traceparent of calls for the stream. If that is the header of the request, and the client
	// sends several, there is none: it is not clear which is its own.
	Span() string
	// SetState puts a value on the stream where access log and tracer find it.
	SetState(name, value string)
	// Respond answers the stream. headers is a serialised map.
	Respond(status int, details string, headers, body []byte, grpcStatus int)
	Resume()
	// Effective names the context that later calls act on: a stream, or a plugin.
	Effective(context uint32)
	// Wake has Finish called for a stream that waited, on the stream's own thread. False: the host cannot do
	// that, and the VM finishes the stream in a callback of its own.
	Wake(stream uint32) bool

	// Call starts an HTTP call; false if it could not be made. Its answer comes with the id, by CallResponse or
	// CallFailed.
	Call(cluster string, headers, body []byte, timeout lease.Millis) (id uint32, ok bool)
	// Answer returns :status and body of the answer whose callback runs, valid until the next callback.
	Answer(bodySize int) (status string, body []byte)

	// Counter, Gauge and Histogram return the host's number of a metric.
	Counter(name string) uint32
	Gauge(name string) uint32
	Histogram(name string) uint32
	Add(metric uint32, n int64)
	Record(metric uint32, v uint64)
}

// Level is that of a line of the log.
type Level uint32

// The levels that the filter uses.
const (
	LogInfo  Level = 2
	LogWarn  Level = 3
	LogError Level = 4
)

// text is b as a string that shares its memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// identity names what a plugin shares with those that have the same name, region, region_cluster and pop. A plugin that
// differs in any of them does not have the same limits: perhaps it asks another region.
func identity(name string, cfg *rulebook.Config) uint64 {
	return rule.HashText([]byte(name + "\x00" + cfg.Region + "\x00" + cfg.RegionCluster + "\x00" + cfg.PoP))
}

// space is what plugins of one identity have of a store that others use, too.
type space struct {
	table.Store
	key []byte // the space's prefix, and then the key of the last call
}

const prefixBytes = 8

func newSpace(of table.Store, identity uint64) *space {
	return &space{of, binary.LittleEndian.AppendUint64(nil, identity)}
}

func (s *space) Get(key []byte) (value []byte, version uint32, ok bool) {
	s.key = append(s.key[:prefixBytes], key...)
	return s.Store.Get(s.key)
}

func (s *space) Set(key, value []byte, version uint32) table.Outcome {
	s.key = append(s.key[:prefixBytes], key...)
	return s.Store.Set(s.key, value, version)
}
