package filter

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// The module that make build leaves, compiled once for all tests.
var compiled struct {
	once    sync.Once
	runtime wazero.Runtime
	module  wazero.CompiledModule
	err     error
}

const modulePath = "../../bin/weir.wasm"

// hostOf finds the VM that an instance of the module is: its host functions belong
// to all instances.
var (
	hostsMu sync.Mutex
	hostOf  = map[string]*wasmGuest{}

	instances int // made so far, for their names
)

func compile() {
	code, err := os.ReadFile(modulePath)
	if err != nil {
		compiled.err = err
		return
	}
	ctx := experimental.WithFunctionListenerFactory(context.Background(), experimental.FunctionListenerFactoryFunc(crossing))
	compiled.runtime = wazero.NewRuntime(ctx)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, compiled.runtime); err != nil {
		compiled.err = err
		return
	}
	if compiled.err = exportHost(ctx, compiled.runtime); compiled.err == nil {
		compiled.module, compiled.err = compiled.runtime.CompileModule(ctx, code)
	}
}

// wasmGuest is the built module in a VM of its own.
type wasmGuest struct {
	e    *envoy
	n    int
	mod  api.Module
	ctx  context.Context
	dead bool
}

func startWasm(e *envoy) guest {
	compiled.once.Do(compile)
	if errors.Is(compiled.err, fs.ErrNotExist) {
		e.t.Fatal("bin/weir.wasm is not there; run `make build` before the tests")
	}
	if compiled.err != nil {
		e.t.Fatal(compiled.err)
	}
	g := &wasmGuest{e: e, n: len(e.vms) - 1, ctx: context.Background()}
	hostsMu.Lock()
	instances++
	name := strconv.Itoa(instances)
	hostOf[name] = g
	hostsMu.Unlock()
	config := wazero.NewModuleConfig().WithName(name).WithStartFunctions("_initialize").
		WithNanotime(func() int64 { return e.ns }, sys.ClockResolution(1)).
		WithWalltime(func() (int64, int32) {
			ns := wallStart + e.ns
			return ns / 1e9, int32(ns % 1e9)
		}, sys.ClockResolution(1))
	if g.n > 0 { // else it would be the first worker once more
		config = config.WithRandSource(rand.NewChaCha8([32]byte{byte(g.n)}))
	}
	var err error
	if g.mod, err = compiled.runtime.InstantiateModule(g.ctx, compiled.module, config); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = g.mod.Close(g.ctx) // nobody needs it any more
		hostsMu.Lock()
		delete(hostOf, name)
		hostsMu.Unlock()
	})
	return g
}

// do calls an export; a trap kills the VM, and the callback continues as Envoy's
// would without it.
func (g *wasmGuest) do(name string, args ...uint64) uint64 {
	if g.dead {
		return 0
	}
	out, err := g.mod.ExportedFunction(name).Call(g.ctx, args...)
	if err != nil {
		g.dead = true
		g.e.log("trap in " + name + ": " + err.Error())
		return 0
	}
	if len(out) == 0 {
		return 0
	}
	return out[0]
}

func (g *wasmGuest) configure(context uint32, size int) {
	if g.do("proxy_on_configure", uint64(context), uint64(size)) != 1 {
		g.e.t.Error("the plugin did not start: that stops Envoy")
	}
}
func (g *wasmGuest) requestHeaders(context uint32) action {
	return action(g.do("proxy_on_request_headers", uint64(context), 0, 1))
}
func (g *wasmGuest) responseHeaders(context uint32) {
	g.do("proxy_on_response_headers", uint64(context), 0, 1)
}
func (g *wasmGuest) tick(context uint32) { g.do("proxy_on_tick", uint64(context)) }
func (g *wasmGuest) callResponse(context, id uint32, bodySize int) {
	g.do("proxy_on_http_call_response", uint64(context), uint64(id), 0, uint64(bodySize), 0)
}
func (g *wasmGuest) deleted(context uint32) { g.do("proxy_on_delete", uint64(context)) }

// exportHost is the host's side of the ABI.
func exportHost(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("env")
	export := func(name string, f any) { b.NewFunctionBuilder().WithFunc(f).Export(name) }
	export("proxy_log", func(_ context.Context, m api.Module, level, data, size uint32) uint32 {
		guestOf(m).e.log(str(m, data, size))
		return 0
	})
	export("proxy_set_tick_period_milliseconds", func(_ context.Context, m api.Module, ms uint32) uint32 {
		guestOf(m).e.tickMs = ms
		return 0
	})
	exportRequests(export)
	exportShared(export)
	exportCalls(export)
	exportMetrics(export)
	_, err := b.Instantiate(ctx)
	return err
}

func exportRequests(export func(string, any)) {
	export("proxy_get_header_map_pairs", func(_ context.Context, m api.Module, kind, data, size uint32) uint32 {
		return give(m, encodeMap(guestOf(m).e.stream().request), data, size)
	})
	export("proxy_get_header_map_value", func(_ context.Context, m api.Module, kind, name, nameSize, data, size uint32) uint32 {
		e := guestOf(m).e
		value := ""
		switch kind {
		case 6:
			value = e.answers.status
		case 2:
			value = e.responseHeader(str(m, name, nameSize))
		default:
			value = header(e.stream().request, str(m, name, nameSize))
		}
		if value == "" {
			return 1
		}
		return give(m, []byte(value), data, size)
	})
	export("proxy_add_header_map_value", func(_ context.Context, m api.Module, kind, name, nameSize, value, valueSize uint32) uint32 {
		x := guestOf(m).e.stream()
		x.response = append(x.response, [2]string{str(m, name, nameSize), str(m, value, valueSize)})
		return 0
	})
	export("proxy_replace_header_map_value", func(_ context.Context, m api.Module, kind, name, nameSize, value, valueSize uint32) uint32 {
		guestOf(m).e.stream().replace(str(m, name, nameSize), str(m, value, valueSize))
		return 0
	})
	export("proxy_get_property", func(_ context.Context, m api.Module, path, pathSize, data, size uint32) uint32 {
		value, ok := guestOf(m).e.property(str(m, path, pathSize))
		if !ok {
			return 1
		}
		return give(m, []byte(value), data, size)
	})
	export("proxy_set_property", func(_ context.Context, m api.Module, path, pathSize, value, valueSize uint32) uint32 {
		guestOf(m).e.stream().setState(str(m, path, pathSize), str(m, value, valueSize))
		return 0
	})
	export("proxy_send_local_response", func(_ context.Context, m api.Module, status, details, detailsSize, body, bodySize, headers, headersSize uint32, grpc int32) uint32 {
		guestOf(m).e.respond(int(status), str(m, details, detailsSize), decodeMap([]byte(str(m, headers, headersSize))), str(m, body, bodySize), int(grpc))
		return 0
	})
	export("proxy_continue_stream", func(_ context.Context, m api.Module, kind uint32) uint32 {
		guestOf(m).e.resume()
		return 0
	})
	export("proxy_set_effective_context", func(_ context.Context, m api.Module, id uint32) uint32 {
		guestOf(m).e.current = id
		return 0
	})
}

func exportShared(export func(string, any)) {
	export("proxy_get_shared_data", func(_ context.Context, m api.Module, key, keySize, data, size, cas uint32) uint32 {
		v, version, ok := guestOf(m).e.sharedGet(str(m, key, keySize))
		if !ok {
			return 1
		}
		m.Memory().WriteUint32Le(cas, version)
		return give(m, v, data, size)
	})
	export("proxy_set_shared_data", func(_ context.Context, m api.Module, key, keySize, value, valueSize, cas uint32) uint32 {
		if guestOf(m).e.sharedSet(str(m, key, keySize), []byte(str(m, value, valueSize)), cas) != 0 {
			return statusMismatchWire
		}
		return 0
	})
}

const statusMismatchWire = 8

func exportCalls(export func(string, any)) {
	export("proxy_http_call", func(_ context.Context, m api.Module, cluster, clusterSize, headers, headersSize, body, bodySize, trailers, trailersSize, timeout, id uint32) uint32 {
		g := guestOf(m)
		n, ok := g.e.call(g.n, str(m, cluster, clusterSize), decodeMap([]byte(str(m, headers, headersSize))), []byte(str(m, body, bodySize)), timeout)
		if !ok {
			return 2
		}
		m.Memory().WriteUint32Le(id, n)
		return 0
	})
	export("proxy_get_buffer_bytes", func(_ context.Context, m api.Module, kind, start, most, data, size uint32) uint32 {
		e := guestOf(m).e
		switch {
		case kind == 7:
			return give(m, []byte(e.config), data, size)
		case kind == 4 && e.answers != nil:
			return give(m, e.answers.answer, data, size)
		}
		return 1
	})
}

func exportMetrics(export func(string, any)) {
	export("proxy_define_metric", func(_ context.Context, m api.Module, kind, name, nameSize, id uint32) uint32 {
		m.Memory().WriteUint32Le(id, guestOf(m).e.define(str(m, name, nameSize)))
		return 0
	})
	export("proxy_increment_metric", func(_ context.Context, m api.Module, id uint32, n int64) uint32 {
		e := guestOf(m).e
		e.metrics[e.names[id]] += n
		return 0
	})
	export("proxy_record_metric", func(_ context.Context, m api.Module, id uint32, v uint64) uint32 {
		e := guestOf(m).e
		e.metrics[e.names[id]] = int64(v)
		return 0
	})
}

func guestOf(m api.Module) *wasmGuest {
	hostsMu.Lock()
	defer hostsMu.Unlock()
	return hostOf[m.Name()]
}

func str(m api.Module, at, size uint32) string {
	b, ok := m.Memory().Read(at, size)
	if !ok {
		panic("the filter passed memory that it does not have")
	}
	guestOf(m).e.crossed.out += int(size)
	return string(b)
}

// give hands bytes to the guest, in memory that the guest provides.
func give(m api.Module, b []byte, data, size uint32) uint32 {
	m.Memory().WriteUint32Le(size, uint32(len(b)))
	guestOf(m).e.crossed.in += len(b)
	if len(b) == 0 {
		m.Memory().WriteUint32Le(data, 0)
		return 0
	}
	out, err := m.ExportedFunction("proxy_on_memory_allocate").Call(context.Background(), uint64(len(b)))
	if err != nil {
		panic(err)
	}
	m.Memory().Write(uint32(out[0]), b)
	m.Memory().WriteUint32Le(data, uint32(out[0]))
	return 0
}
