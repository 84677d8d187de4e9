package limiter_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// process calls a region, one call after the other, under an id that another one may have.
type process struct {
	of       *region
	addr     string
	id       []byte
	worker   uint64
	seq, ack uint64
	decided  int // of its calls
}

// call asks for one unit of a key.
func (p *process) call(key string) {
	p.seq++
	req := &wire.Request{Protocol: 1, Holder: p.id, Worker: p.worker, Seq: p.seq, Ack: p.ack, Wants: []wire.Want{want("page", key, 1)}}
	if p.send(req).Grants[0].Status != lease.Unavailable {
		p.decided++
	}
	p.ack = p.seq
}

// send brings a call to the region, from the process's address.
func (p *process) send(req *wire.Request) *wire.Response {
	p.of.t.Helper()
	r := httptest.NewRequest("POST", quotapbconnect.QuotaServiceAcquireProcedure, bytes.NewReader(req.Append(nil)))
	r.Header.Set("Content-Type", "application/proto")
	r.RemoteAddr = p.addr
	w := httptest.NewRecorder()
	p.of.handler.ServeHTTP(w, r)
	out := new(wire.Response)
	if err := out.Decode(w.Body.Bytes()); err != nil || w.Code != 200 {
		p.of.t.Fatalf("%d %s", w.Code, w.Body.Bytes())
	}
	return out
}

// conflicts is how many calls showed that two processes have one id.
func (r *region) conflicts() (n int) {
	_, after, _ := strings.Cut(scrape(r.metrics), "\nweir_holder_id_conflicts_total ")
	if _, err := fmt.Sscan(after, &n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestTwinsAreSeen: two processes with one id call in turns, wherever the numbers of one are beside
// those of the other. They are counted, and one line of the log has the holder and both addresses. A
// third holder loses nothing.
func TestTwinsAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		ahead       uint64 // by how many numbers one is, at first
		one, second int    // calls of each in a turn
	}{
		"step by step":       {0, 1, 1},
		"close behind":       {3, 1, 1},
		"behind":             {700, 1, 1},
		"far behind":         {5000, 1, 1},
		"slow and behind":    {40, 10, 1},
		"slow and far away":  {5000, 10, 1},
		"fast, from behind":  {500, 1, 3},
		"both several calls": {0, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			r := newRegion(t, logged(&log))
			one := &process{of: r, addr: "192.0.2.1:1", id: holderA, worker: 7}
			second := &process{of: r, addr: "192.0.2.2:2", id: holderA, worker: 7}
			third := &process{of: r, addr: "192.0.2.3:3", id: holderB, worker: 7}
			for range c.ahead {
				one.call("one")
			}
			for n := range 1000 {
				for range c.one {
					one.call("one")
				}
				for range c.second {
					second.call("second")
				}
				third.call(fmt.Sprint("third ", n))
				r.advance(100 * limit.Millisecond)
			}
			if n := r.conflicts(); n < 50 {
				t.Errorf("%d of 1000 turns are counted", n)
			}
			told := lines(&log, "two processes call as one holder")
			if len(told) != 1 {
				t.Fatalf("the log is\n%s", log.String())
			}
			for _, part := range []string{"level=WARN", "holder=" + strings.Repeat("61", 16), "192.0.2.1:1", "192.0.2.2:2", "remedy="} {
				if !strings.Contains(told[0], part) {
					t.Errorf("no %s in %s", part, told[0])
				}
			}
			if third.decided != 1000 {
				t.Errorf("%d of 1000 calls of a third holder were decided", third.decided)
			}
			t.Logf("%d calls of one were decided, and %d of the other", one.decided, second.decided)
		})
	}
}

// TestNoTwins: a process that starts again under the id of before is alone, and so is one of which the
// network brings each call twice, the second time late: a recording of more calls looks like a process.
func TestNoTwins(t *testing.T) {
	for _, before := range []int{3, 500, 5000} {
		r := newRegion(t)
		p := &process{of: r, addr: "192.0.2.1:1", id: holderA}
		for range before {
			p.call("before")
		}
		p.seq, p.ack = 0, 0
		for range 2000 {
			p.call("after")
			r.advance(10 * limit.Millisecond)
		}
		if n := r.conflicts(); n != 0 {
			t.Errorf("%d calls before a restart: %d conflicts", before, n)
		}
	}
	for _, late := range []int{0, 1, 30, 600, 1023} {
		r := newRegion(t)
		p := &process{of: r, addr: "192.0.2.1:1", id: holderA}
		var sent []*wire.Request
		for n := range 6000 {
			p.seq++
			req := &wire.Request{Protocol: 1, Holder: p.id, Seq: p.seq, Ack: p.seq - 1, Wants: []wire.Want{want("page", fmt.Sprint(n), 1)}}
			p.send(req)
			if sent = append(sent, req); n >= late {
				p.send(sent[n-late])
			}
		}
		if n := r.conflicts(); n != 0 {
			t.Errorf("copies %d calls late: %d conflicts", late, n)
		}
	}
}

// TestManySuspects: whoever makes up holders, and repeats their calls, takes no memory beyond a
// bound, and does not keep two processes with one id from being seen for good.
func TestManySuspects(t *testing.T) {
	r := newRegion(t, func(c *limiter.Config) { c.MaxHoldersPerAddress = 2000 })
	one, second := &process{of: r, id: holderA}, &process{of: r, id: holderA}
	for n := range 1000 {
		made := &process{of: r, id: fmt.Appendf(nil, "made up %08d", n)}
		made.call("k")
		made.seq, made.ack = 0, 0
		made.call("other")
		one.call("one")
		second.call("second")
	}
	if n := r.conflicts(); n < 100 {
		t.Errorf("%d of 1000 turns are counted", n)
	}
}
