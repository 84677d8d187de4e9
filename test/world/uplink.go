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

// uplink is the store of a lease cache: the granter, over a link. What is lost on the
// way is unavailable when the time of the caller is over; nothing is sent twice, as a
// [engine.Store] promises.
type uplink struct {
	*Link
	of *Life
}

// Acquire is called by goroutines of the cache.
func (u *uplink) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	answer := make(chan []lease.Grant, 1)
	c := &Call{Link: u.Link, From: u.of, Asks: copied(asks), ctx: context.Background(), serve: asked}
	c.arrive = func(c *Call) {
		if u.of.receives(c) {
			answer <- c.Grants
		}
	}
	for i := range c.Asks {
		c.Asks[i].Region = u.of.Tier.Region
	}
	u.w.mail.post(postOf(c.Asks, "link "+u.From, func() { u.of.sends(c) }))
	await(ctx, answer, grants)
}

// postOf is something to be done for asks.
func postOf(asks []engine.Ask, name string, do func()) post {
	a := &asks[0]
	return post{name: name, key: a.Policy.Rule + "/" + string(a.Key), n: uint64(a.Want.Want), m: uint64(a.Want.Unused), do: do}
}

// await takes an answer, if it comes in time.
func await(ctx context.Context, answer <-chan []lease.Grant, grants []lease.Grant) {
	select {
	case granted := <-answer:
		copy(grants, granted)
	case <-ctx.Done():
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
}

// asked has the granter answer.
func asked(c *Call, by *Life) bool {
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	c.Grants = make([]lease.Grant, len(c.Asks))
	by.store.Acquire(ctx, c.Asks, c.Grants)
	return true
}

// sends makes a call of the granter, unless the life is over: what it held is lost, and is not given back.
func (l *Life) sends(c *Call) {
	if !l.Over {
		l.Tier.w.passes(c, Leaves)
		c.Link.send(c)
	}
}

// receives takes the answer of the granter, if somebody still waits for it.
func (l *Life) receives(c *Call) bool {
	if l.Over || c.ctx.Err() != nil {
		l.Tier.w.passes(c, Missed)
		return false
	}
	l.Tier.w.passes(c, Received)
	l.Tier.w.mail.stirred = true
	return true
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
	of *Life
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
	answer := make(chan *Call, 1)
	c := &Call{Link: u.Link, From: u.of, Body: body, ctx: context.Background()}
	c.serve = func(c *Call, by *Life) bool {
		by.serves(c, r.URL.Path, timeout)
		return true // also that it rejects the call
	}
	c.arrive = func(c *Call) {
		c.ctx = r.Context()
		if u.of.receives(c) {
			answer <- c
		}
	}
	u.w.mail.post(post{name: "link " + u.From, n: m.Seq, do: func() { u.of.sends(c) }})
	select {
	case c := <-answer:
		return &http.Response{StatusCode: c.Code, Status: http.StatusText(c.Code), Body: io.NopCloser(bytes.NewReader(c.Reply)), Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// serves has the service answer a call as it travels, within so many milliseconds.
func (l *Life) serves(c *Call, path string, timeout int64) bool {
	e := envelopes.Get().(*envelope)
	defer envelopes.Put(e)
	req := e.request.WithContext(context.WithValue(c.ctx, answering{}, c))
	e.body.Reset(c.Body)
	e.url.Path, e.timeout[0] = path, strconv.FormatInt(timeout, 10)
	req.Body, req.ContentLength, req.RemoteAddr = &e.body, int64(len(c.Body)), c.Link.address
	e.answer = answer{header: e.answer.header, code: http.StatusOK}
	clear(e.answer.header)
	l.handler.ServeHTTP(&e.answer, req)
	c.Reply, c.Code = e.answer.body, e.answer.code
	return c.Code == http.StatusOK
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
