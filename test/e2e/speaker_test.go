package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
)

// speaker is a region that keeps to the rules of reserves, as an aggregator sees it: it states four times a second
// what it has renounced. Its store has the clock of this machine.
type speaker struct {
	t      *testing.T
	name   string
	addr   string // of the aggregator
	spec   limit.Spec
	window reserve.Window
	holder []byte

	mu     sync.Mutex
	seq    uint64
	record reserve.Record
	cut    bool
	fresh  time.Time // when a call was sent that was answered
	used   map[limit.Micros]int64
}

// newSpeaker makes one of a rule with this limit, which calls until the test ends.
func newSpeaker(t *testing.T, name, addr string, spec limit.Spec) *speaker {
	r := &speaker{t: t, name: name, addr: addr, spec: spec, window: reserve.WindowOf(spec), holder: make([]byte, 16), used: map[limit.Micros]int64{}}
	_, _ = rand.Read(r.holder) // never fails
	r.record.ID = binary.LittleEndian.Uint64(r.holder) | 1
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(250 * time.Millisecond):
				r.beat()
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
	return r
}

func microsNow() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }

// setCut cuts the region off from the aggregator, or connects it again.
func (r *speaker) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
}

// beat is a call without wants.
func (r *speaker) beat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.cut {
		_, _, _ = r.call(func(*wire.Request) {})
	}
}

// call makes a call that change has changed, and takes what is answered. The region is locked.
func (r *speaker) call(change func(*wire.Request)) (answer wire.Response, status int, text string) {
	r.seq++
	st := r.record.Statement()
	m := wire.Request{Protocol: wire.Protocol, Holder: r.holder, Seq: r.seq, Region: r.name, Reserve: &st}
	change(&m)
	sent := time.Now()
	post, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.addr+quotapbconnect.QuotaServiceAcquireProcedure, bytes.NewReader(m.Append(nil)))
	if err != nil {
		r.t.Error(err)
		return answer, 0, ""
	}
	post.Header.Set("Content-Type", "application/proto")
	resp, err := (&http.Client{Timeout: 2 * time.Second}).Do(post)
	if err != nil {
		return answer, 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return answer, resp.StatusCode, string(body)
	}
	if err := answer.DecodeAnswer(body, m.Seq, len(m.Wants)); err != nil {
		r.t.Errorf("%s: %v", r.name, err)
	}
	r.fresh = sent
	if p := answer.Reserve; p != nil && m.Reserve != nil && m.Reserve.ID == r.record.ID {
		p.ID = m.Reserve.ID
		r.record = r.record.Replied(*p).Renounced(p.At, microsNow(), microsNow(), []reserve.Window{r.window})
	}
	return answer, resp.StatusCode, ""
}

// connected reports whether the region was answered within a time, and has a share.
func (r *speaker) connected(within time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.fresh) < within && r.record.Share.Part > 0 && r.record.Until > microsNow()
}

// spend spends all that the region gets of a key at once: from the aggregator, and if that denies it, or does not
// decide, from its reserve. It is added up by window.
func (r *speaker) spend(key string, by map[limit.Micros]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.cut {
		answer, status, _ := r.call(func(m *wire.Request) {
			m.Wants = []wire.Want{{Rule: "shared", Key: []byte(key), Want: lease.Want{Need: 1, Waiting: 20, Want: 20}}}
		})
		if status != http.StatusOK || answer.Grants[0].Granted == 0 {
			break
		}
		by[r.begin(&answer.Grants[0])] += answer.Grants[0].Granted
	}
	now := microsNow()
	var p reserve.Permission
	r.record, p = r.record.Permitted(now)
	begin := r.window.Begin(now)
	if part, ok := p.For(r.window, begin); ok {
		most, name := part.Of(r.spec.Count), begin
		if r.window.Refills {
			most, name = reserve.Trickle(r.spec, part, begin, p.Cut, now), 0
		}
		by[name] += max(0, most-r.used[begin])
		r.used[begin] = max(most, r.used[begin])
	}
}

// begin is when the window began in which a grant was charged.
func (r *speaker) begin(g *wire.Grant) limit.Micros {
	if r.window.Refills {
		return 0
	}
	ms := microsNow() / limit.Millisecond
	return r.window.Begin((ms + limit.Micros(int32(g.Lease-uint32(ms)))) * limit.Millisecond)
}

// awaitWindow waits until a window begins, and for a part of it.
func (r *speaker) awaitWindow(part float64) (begin limit.Micros) {
	begin = r.window.Begin(microsNow() + r.window.Period)
	within := limit.Micros(part * float64(r.window.Period))
	time.Sleep(time.Until(time.UnixMicro(int64(begin + within))))
	return begin
}

// describe is for messages.
func (r *speaker) describe() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s: %+v", r.name, r.record)
}
