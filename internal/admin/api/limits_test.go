package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/admin/access"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
)

// One caller gets its burst and then its rate, and no other caller waits for it.
func TestRate(t *testing.T) {
	l, now := newLimits(), time.Unix(1_800_000_000, 0)
	enter := func(who string) (ok bool) {
		leave, p := l.enter(who, false, now)
		if p == nil {
			leave()
		} else if wait := p.GetHeaders().Get("Retry-After"); p.Status != 429 || p.Code != v1.CodeTooMany || wait != "1" || !strings.Contains(p.Detail, who) {
			t.Fatalf("%+v, Retry-After %s", p, wait)
		}
		return p == nil
	}
	count := func(who string) (n int) {
		for range 10_000 {
			if enter(who) {
				n++
			}
		}
		return n
	}
	if n := count("ann"); n != burst {
		t.Errorf("at once: %d calls", n)
	}
	if n := count("bob"); n != burst {
		t.Errorf("of another caller: %d calls", n)
	}
	if now = now.Add(time.Second); !enter("ann") {
		t.Error("after a second: none")
	}
	if n := count("ann"); n != perSecond-1 {
		t.Errorf("after a second: %d calls", n+1)
	}
}

// Streams and calls in flight are bounded, for one caller and for all, and make room when they end.
func TestInFlight(t *testing.T) {
	l, now := newLimits(), time.Unix(1_800_000_000, 0)
	var leave []func()
	fill := func(stream bool, callers, each int) (n int) {
		for who := range callers {
			for range each {
				if one, p := l.enter(fmt.Sprint(who), stream, now); p == nil {
					leave, n = append(leave, one), n+1
				} else if wait, err := strconv.Atoi(p.GetHeaders().Get("Retry-After")); err != nil || wait < 1 {
					t.Fatalf("%+v", p)
				}
			}
		}
		return n
	}
	for range 2 {
		if n := fill(true, 1, 20); n != maxStreamsEach {
			t.Errorf("%d streams of one caller", n)
		}
		if n := fill(true, 20, 10); n != maxStreams-maxStreamsEach {
			t.Errorf("%d more streams of all callers", n)
		}
		if n := fill(false, 1, 20); n != maxCallsEach {
			t.Errorf("%d calls of one caller, beside streams", n)
		}
		if n := fill(false, 20, 10); n != maxCalls-maxCallsEach {
			t.Errorf("%d more calls of all callers", n)
		}
		for _, one := range leave {
			one()
		}
		leave = nil
		now = now.Add(time.Minute)
	}
}

// Ten thousand viewers with one token get its rate. The others are told when to come again, and lose their connection; who
// has another token is served meanwhile.
func TestManyViewers(t *testing.T) {
	w := newWorld(t, Config{Loopback: true, Callers: new(access.List)})
	server := httptest.NewServer(w.Handler())
	defer server.Close()
	call := func(c *http.Client, name string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/read", nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+w.tokens[name])
		answer, err := c.Do(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		return answer, err
	}
	const viewers, atOnce = 10_000, 200
	var served, refused, broken atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range atOnce {
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for range viewers / atOnce {
				switch answer, err := call(c, "viewer"); {
				case err != nil:
					broken.Add(1)
				case answer.StatusCode == 200:
					served.Add(1)
				case answer.StatusCode == 429 && answer.Header.Get("Retry-After") != "" && answer.Close:
					refused.Add(1)
				default:
					t.Errorf("%d %v", answer.StatusCode, answer.Header)
				}
			}
		})
	}
	for range 20 {
		if answer, err := call(http.DefaultClient, "admin"); err != nil || answer.StatusCode != 200 {
			t.Errorf("another caller: %v, %v", answer, err)
		}
	}
	all.Wait()
	most := burst + perSecond*int64(time.Since(began)/time.Second+1)
	if served.Load() == 0 || served.Load() > most || refused.Load() == 0 || broken.Load() > 0 {
		t.Errorf("%d served (at most %d), %d refused, %d broken", served.Load(), most, refused.Load(), broken.Load())
	}
}
