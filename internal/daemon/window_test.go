package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// unread makes calls of a port on one connection of HTTP/2 and reads no answer: its window is 0. It returns how many
// answers began, once every call has the beginning of its answer or is cut.
func unread(t *testing.T, address string, calls int, path func(i int) string) (begun int) {
	t.Helper()
	var out, block bytes.Buffer
	framer, fields := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	out.WriteString(http2.ClientPreface)
	err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range calls {
		block.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path(i)}} {
			_ = fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	}
	fatal.If(t, err)
	conn := fatal.Get(net.DialTimeout("tcp", address, time.Minute))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fatal.Get(conn.Write(out.Bytes()))(t)
	framer = http2.NewFramer(nil, conn)
	for answered := map[uint32]bool{}; len(answered) < calls; {
		switch frame := fatal.Get(framer.ReadFrame())(t).(type) {
		case *http2.HeadersFrame:
			begun++
			answered[frame.StreamID] = true
		case *http2.RSTStreamFrame: // there were as many calls as there may be
			answered[frame.StreamID] = true
		}
	}
	return begun
}

// used is the memory in use, in MiB.
func used() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc+m.StackInuse) >> 20
}

// Callers who read no answer of the admin port take neither much memory nor the port from others.
func TestUnread(t *testing.T) {
	const most = 32 // MiB
	rules := "rules:\n"
	for i := range 500 {
		rules += fmt.Sprintf("- { name: rule-%d, key: [client_ip], limit: 5/1m }\n", i)
	}
	cfg := testConfig()
	cfg.Rules = proc.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"), rules)
	cfg.AdminListen, cfg.MaxStreams = proc.FreeAddr(t), 1000
	runBeside(t, cfg, ofRegion, quiet)
	for _, of := range []struct {
		connections, calls int // of each
		paths              []string
	}{
		{1, 1000, []string{"/metrics", "/v1/rules"}},
		{20, 50, []string{"/metrics", "/", "/v1/rules", "/main.js"}},
	} {
		asks(t, http.DefaultClient, "http://"+cfg.AdminListen+"/readyz")
		before, begun := used(), 0
		for range of.connections {
			begun += unread(t, cfg.AdminListen, of.calls, func(i int) string { return of.paths[i%len(of.paths)] })
		}
		took := used() - before
		t.Logf("%d connections: %d answers take %d MiB", of.connections, begun, took)
		if took > most {
			t.Errorf("%d connections: %d answers that nobody reads take %d MiB, want at most %d", of.connections, begun, took, most)
		}
		if status, text := asks(t, http.DefaultClient, "http://"+cfg.AdminListen+"/readyz"); status != 200 {
			t.Errorf("%d connections: /readyz: %d %s", of.connections, status, text)
		}
	}
}
