package world

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// uplink is the store of a lease cache: the tier above, over a link. What is lost on the
// way is unavailable when the time of the caller is over; nothing is sent twice, as a
// [engine.Store] promises.
type uplink struct {
	*Link
	of *life
}

func (u *uplink) Epoch() uint64 { return u.above.store.Epoch() }

// Acquire is called by goroutines of the cache.
func (u *uplink) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	asks = copied(asks)
	answer := make(chan []lease.Grant, 1)
	c := &call{link: u.Link, ctx: context.Background()}
	c.serve = func(c *call, by *life) bool {
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		c.grants = make([]lease.Grant, len(asks))
		by.store.Acquire(ctx, asks, c.grants)
		return true
	}
	c.arrive = func(c *call) {
		if !u.of.over {
			u.w.mail.stirred = true
			answer <- c.grants
		}
	}
	for i := range asks {
		asks[i].Region = u.of.tier.region
	}
	a := &asks[0]
	u.w.mail.post(post{
		name: "link " + u.from, key: a.Policy.Rule + "/" + string(a.Key), n: uint64(a.Want.Want), m: uint64(a.Want.Unused),
		do: func() { u.send(c) },
	})
	select {
	case granted := <-answer:
		copy(grants, granted)
	case <-ctx.Done():
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
}

// copied are asks that outlive the call that they came with.
func copied(asks []engine.Ask) []engine.Ask {
	asks = slices.Clone(asks)
	for i := range asks {
		asks[i].Key = slices.Clone(asks[i].Key)
	}
	return asks
}

// wired carries the calls that a region makes of the aggregator with internal/upstream/client: the
// bytes of the wire. Calls and answers that are lost hang until the caller's time is over.
type wired struct {
	*Link
	of *life
}

// RoundTrip is called by goroutines of internal/upstream/client.
func (u *wired) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	timeout, err := strconv.ParseInt(r.Header.Get("Connect-Timeout-Ms"), 10, 64)
	if err != nil {
		return nil, err
	}
	var m wire.Request
	if err := m.Decode(slices.Clone(body)); err != nil {
		return nil, err
	}
	answer := make(chan *call, 1)
	u.w.mail.post(post{name: "link " + u.from, n: m.Seq, do: func() {
		c := &call{link: u.Link, ctx: context.Background()}
		c.serve = func(c *call, by *life) bool {
			by.serves(c, r.URL.Path, timeout, body)
			return true // also that it refuses the call
		}
		c.arrive = func(c *call) {
			if !u.of.over && r.Context().Err() == nil {
				u.w.mail.stirred = true
				answer <- c
			}
		}
		u.send(c)
	}})
	select {
	case c := <-answer:
		return &http.Response{StatusCode: c.code, Status: http.StatusText(c.code), Body: io.NopCloser(bytes.NewReader(c.body)), Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// serves has the service answer a call as it travels, within so many milliseconds.
func (l *life) serves(c *call, path string, timeout int64, body []byte) bool {
	e := envelopes.Get().(*envelope)
	defer envelopes.Put(e)
	req := &e.request
	if c.ctx != context.Background() {
		req = req.WithContext(c.ctx)
	}
	e.body.Reset(body)
	e.url.Path, e.timeout[0] = path, strconv.FormatInt(timeout, 10)
	req.Body, req.ContentLength, req.RemoteAddr = &e.body, int64(len(body)), c.link.address
	e.answer = answer{header: e.answer.header, code: http.StatusOK}
	clear(e.answer.header)
	l.handler.ServeHTTP(&e.answer, req)
	c.body, c.code = e.answer.body, e.answer.code
	return c.code == http.StatusOK
}

// envelope is a call of a service, to be used again.
type envelope struct {
	request http.Request
	url     url.URL
	body    content
	timeout []string
	answer  answer
}

type content struct{ bytes.Reader }

func (*content) Close() error { return nil }

var envelopes = sync.Pool{New: func() any {
	e := &envelope{timeout: make([]string, 1), answer: answer{header: http.Header{}}}
	e.request = http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, URL: &e.url, Header: http.Header{
		"Content-Type": {"application/proto"}, "Connect-Timeout-Ms": e.timeout,
	}}
	return e
}}

// answer is what a service answers.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}
