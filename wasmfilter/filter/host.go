package filter

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// host is what the filter needs of Envoy: the Proxy-Wasm ABI 0.2, in the terms of
// the filter. In the module it is abi; tests have an Envoy of their own.
//
// Calls "of the stream" act on the stream whose callback runs, or on the
// one that effective has named since.
type host interface {
	table.Store

	log(level logLevel, message string)
	// now is a monotonic clock that all workers share.
	now() lease.Millis
	wall() limit.Micros
	entropy() [6]uint64
	setTick(ms uint32)
	pluginConfig(size int) []byte
	// pluginName is the name that the bootstrap gives the plugin that is configured, or of
	// the stream, valid until the next property.
	pluginName() string

	// headers returns all request headers of the stream in their serialised form,
	// valid until the next callback.
	headers() []byte
	// header returns one request header of the stream, valid until the next
	// callback.
	header(name string) (value string, ok bool)
	// property returns what Envoy knows of the stream, valid until the next property: names,
	// each but the last with a zero byte behind it.
	property(path string) (value string, ok bool)
	// responseHeader is header for the response of the stream.
	responseHeader(name string) (value string, ok bool)
	addResponseHeader(name, value string)
	replaceResponseHeader(name, value string)
	// setState puts a value on the stream where access log and tracer find it: filter
	// state that Envoy calls wasm.NAME.
	setState(name, value string)
	// respond answers the stream. headers is a serialised map.
	respond(status int, details string, headers, body []byte, grpcStatus int)
	resume()
	// effective names the context that later calls act on: a stream, or a plugin.
	effective(context uint32)

	// call starts an HTTP call; false if it could not be made. Its answer comes
	// with the id.
	call(cluster string, headers, body []byte, timeout lease.Millis) (id uint32, ok bool)
	// answer returns :status and body of the answer whose callback runs, valid
	// until the next callback.
	answer(bodySize int) (status string, body []byte)

	counter(name string) metric
	gauge(name string) metric
	histogram(name string) metric
	add(m metric, n int64)
	record(m metric, v uint64)
}

// metric is the host's number of a metric.
type metric uint32

type logLevel uint32

const (
	logInfo  logLevel = 2
	logWarn  logLevel = 3
	logError logLevel = 4
)

// text is b as a string that shares its memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// space is what plugins of one name, region, region_cluster and pop have of the shared data. A plugin that differs in any
// of them has the same vm_id and keys, but not the same limits: perhaps it asks another region.
type space struct {
	table.Store
	key []byte // the space's prefix, and then the key of the last call
}

const prefixBytes = 8

func newSpace(of table.Store, name string, cfg *rulebook.Config) *space {
	identity := strings.Join([]string{name, cfg.Region, cfg.RegionCluster, cfg.PoP}, "\x00")
	return &space{of, binary.LittleEndian.AppendUint64(nil, rule.HashText([]byte(identity)))}
}

func (s *space) Get(key []byte) (value []byte, version uint32, ok bool) {
	s.key = append(s.key[:prefixBytes], key...)
	return s.Store.Get(s.key)
}

func (s *space) Set(key, value []byte, version uint32) table.Outcome {
	s.key = append(s.key[:prefixBytes], key...)
	return s.Store.Set(s.key, value, version)
}
