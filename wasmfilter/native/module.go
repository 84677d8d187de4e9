package main

// #include "abi.h"
import "C"

import (
	"runtime"
	"runtime/cgo"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/wasmfilter/filter"
)

// memoryLimit is what Go's memory may grow to before the collector works without pause. The tables are not in it; what a
// worker keeps is a few hundred kB.
const memoryLimit = 128 << 20

// config is one configuration of the filter. There are several while an old listener drains.
type config struct {
	handle    cgo.Handle
	envoy     unsafe.Pointer // Envoy's part of it
	scheduler unsafe.Pointer // has hooks run on the main thread
	name      string
	text      []byte
	workers   []*worker           // the last one is that of the main thread
	defined   map[string]C.size_t // Envoy's numbers of metrics by their names without values

	calling atomic.Bool  // the main thread is to look for calls
	ticking atomic.Bool  // it has not done the last tick
	told    atomic.Bool  // that there are no claims
	pending atomic.Int32 // calls in flight
	stop    chan struct{}

	// Of the main thread.
	calls  map[uint64]call // by Envoy's numbers
	status string          // of the answer whose hook runs
	body   []byte
}

// call is one in flight.
type call struct {
	worker *worker
	id     uint32
}

// Events of the scheduler of a configuration.
const (
	eventTick C.uint64_t = iota
	eventCalls
)

// mainThread is Envoy's, by the number that the kernel has of it.
var mainThread int

// first is the VM whose good configurations all others share. Envoy configures filters on its main thread.
var first *filter.VM

//export weirProgramInit
func weirProgramInit() C.bool {
	if name := C.weir_missing(); name != nil {
		logLine(filter.LogError, "weir: this Envoy has no "+C.GoString(name)+": its dynamic modules are older than the module; docs/envoy.md lists the versions that were tested")
		return false
	}
	if !C.weir_is_only_copy() {
		logLine(filter.LogError, "weir: this process has loaded another copy of the module; all filters have to name one file, and a new one needs a restart of Envoy")
		return false
	}
	debug.SetMemoryLimit(memoryLimit)
	mainThread = syscall.Gettid()
	return true
}

func logLine(level filter.Level, text string) {
	C.weir_log(C.uint32_t(level), chars(text), C.size_t(len(text)))
}

// uncounted is how many panics of the adapter itself no worker has counted yet.
var uncounted atomic.Int64

// recovered logs a panic that no VM has recovered from.
func recovered(hook string) {
	if cause := recover(); cause != nil {
		uncounted.Add(1)
		text := "weir: panic in " + hook
		if err, ok := cause.(error); ok {
			text += ": " + err.Error()
		}
		logLine(filter.LogError, text)
	}
}

//export weirConfigNew
func weirConfigNew(envoy unsafe.Pointer, name, text C.buffer) (module *C.config) {
	defer recovered("http_filter_config_new")
	c := &config{
		envoy: envoy, name: string(bytesOf(name)), text: append([]byte(nil), bytesOf(text)...),
		calls: map[uint64]call{}, stop: make(chan struct{}),
	}
	n := C.envoy_dynamic_module_callback_get_concurrency() + 1
	runtime.GOMAXPROCS(int(n) + 1) // or Go's monitor takes those of Envoy's threads away from them, again and again
	m := C.weir_config_new(n)
	if m == nil {
		return nil
	}
	c.handle = cgo.NewHandle(c)
	m._go = C.uintptr_t(c.handle)
	c.scheduler = C.envoy_dynamic_module_callback_http_filter_config_scheduler_new(envoy)
	c.defineMetrics()
	for i := range n {
		w := newWorker(c)
		if w == nil {
			close(c.stop)
			c.tick() // ends at once
			c.release()
			return nil
		}
		C.weir_set_worker(m, i, w.number)
		c.workers = append(c.workers, w)
	}
	go c.tick()
	return m
}

func configOf(handle C.uintptr_t) *config { return cgo.Handle(handle).Value().(*config) }

// tickEvery is the period of ticks.
const tickEvery = 100 * time.Millisecond

// tick has the main thread tick until the configuration ends. Envoy may end it inside a call of the scheduler that is made
// here, so the scheduler goes last.
func (c *config) tick() {
	defer recovered("the goroutine of ticks")
	defer C.envoy_dynamic_module_callback_http_filter_config_scheduler_delete(c.scheduler)
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-t.C:
			if !c.ticking.Swap(true) {
				c.commit(eventTick)
			}
		}
	}
}

// commit has the main thread handle an event.
func (c *config) commit(event C.uint64_t) {
	C.envoy_dynamic_module_callback_http_filter_config_scheduler_commit(c.scheduler, event)
}

//export weirConfigScheduled
func weirConfigScheduled(handle C.uintptr_t, event C.uint64_t) {
	defer recovered("http_filter_config_scheduled")
	c := configOf(handle)
	if event == eventTick {
		c.ticking.Store(false)
		for _, w := range c.workers {
			w.locked(func() { w.vm.Tick(pluginContext) })
		}
		if n := uncounted.Swap(0); n > 0 {
			w := c.workers[0]
			w.locked(func() { w.Add(w.Counter("weir.panics"), n) })
		}
	}
	c.calling.Store(false)
	for _, w := range c.workers {
		c.makeCalls(w)
	}
}

// makeCalls makes the calls of a worker. No lock is held meanwhile.
func (c *config) makeCalls(w *worker) {
	var calls []outgoing
	w.locked(func() { calls, w.calls = w.calls, nil })
	for _, o := range calls {
		var id C.uint64_t
		if C.weir_call(c.envoy, &id, chars(o.cluster), C.size_t(len(o.cluster)), bytesPtr(o.headers), C.size_t(len(o.headers)),
			bytesPtr(o.body), C.size_t(len(o.body)), C.uint64_t(o.timeout)) {
			c.calls[uint64(id)] = call{w, o.id}
			c.pending.Add(1)
		} else {
			w.locked(func() { w.vm.CallFailed(pluginContext, o.id) })
		}
	}
}

//export weirCallDone
func weirCallDone(handle C.uintptr_t, id C.uint64_t, status C.buffer, chunks *C.buffer, count C.size_t) {
	defer recovered("http_filter_config_http_callout_done")
	c := configOf(handle)
	to, ok := c.calls[uint64(id)]
	if !ok {
		return
	}
	delete(c.calls, uint64(id))
	defer c.pending.Add(-1)
	c.status, c.body = string(bytesOf(status)), c.body[:0]
	for _, b := range unsafe.Slice(chunks, count) {
		c.body = append(c.body, bytesOf(b)...)
	}
	to.worker.locked(func() { to.worker.vm.CallResponse(pluginContext, to.id, len(c.body)) })
}

// weirConfigDestroy ends a configuration, on the thread that used it last.
//
//export weirConfigDestroy
func weirConfigDestroy(handle C.uintptr_t) {
	defer recovered("http_filter_config_destroy")
	c := configOf(handle)
	c.awaitCalls()
	close(c.stop)
	c.release()
}

// awaitCalls waits on a worker thread until no call is in flight. Envoy (1.40) then cancels those that are, which only the
// main thread may do: it would crash. That is where a request ends last, whose configuration was replaced by ECDS. The
// calls end by their timeouts; Envoy's end, which waits for its workers, is not held up for longer.
func (c *config) awaitCalls() {
	if syscall.Gettid() == mainThread {
		return
	}
	for end := time.Now().Add(longestCall); c.pending.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// longestCall is more than the timeout of any call.
const longestCall = 5 * time.Second

// release forgets a configuration, of which nothing runs any more.
func (c *config) release() {
	for _, w := range c.workers {
		workers[w.number].Store(nil)
	}
	c.handle.Delete()
}

// bytesOf is memory of Envoy, valid as long as a hook runs.
func bytesOf(b C.buffer) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(b.ptr)), int(b.length))
}

// chars and bytesPtr are memory of Go, for C to read while a call runs.
func chars(s string) *C.char    { return (*C.char)(unsafe.Pointer(unsafe.StringData(s))) }
func bytesPtr(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }
