package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/wire"
)

// BenchmarkRegion measures what a call costs the process, its HTTP server and the
// kernel's part included: eight callers, on one HTTP/2 connection as a PoP has it,
// or on one HTTP/1.1 connection each. An iteration is a call.
func BenchmarkRegion(b *testing.B) {
	for _, wants := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("http2/wants=%d", wants), func(b *testing.B) { benchmarkRegion(b, http2Client(), wants) })
	}
	one := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	b.Run("http1/wants=1", func(b *testing.B) { benchmarkRegion(b, one, 1) })
}

func benchmarkRegion(b *testing.B, c *http.Client, wants int) {
	p := startRegion(b)
	_, _ = p.acquire(c, 'w', 1, "warm")
	before := processTime(b, p.cmd.Process.Pid)
	var left, seq atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for range 8 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				post(b, c, p.quota, uint64(seq.Add(1)), wants)
			}
		})
	}
	all.Wait()
	used := processTime(b, p.cmd.Process.Pid) - before
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/1000, "cpu-µs/call")
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*wants)/1000, "cpu-µs/want")
}

func post(b *testing.B, c *http.Client, to string, seq uint64, wants int) {
	req := wire.Request{Protocol: 1, Holder: bytes.Repeat([]byte{'h'}, 16), Seq: seq}
	for i := range wants {
		key := fmt.Appendf(nil, "user-%d", (seq*uint64(wants)+uint64(i)*7)%10_000)
		req.Wants = append(req.Wants, wire.Want{Rule: "page", Key: key, Want: lease.Want{Need: 1, Waiting: 1, Want: 8, Fresh: true}})
	}
	r, err := c.Post(to+quotapbconnect.QuotaServiceAcquireProcedure, "application/proto", bytes.NewReader(req.Append(nil)))
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		b.Error(r.Status)
	}
}

// processTime is the processor time that a process used so far. The kernel counts
// it in ticks of 10 ms.
func processTime(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		b.Fatalf("cannot read %s", stat)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
