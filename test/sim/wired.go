package sim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/weirlimit/weir/internal/wire"
	edgecalls "github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// wired carries the calls that a region makes of the aggregator with internal/upstream/client: the
// bytes of the wire. Calls and answers that are lost hang until the caller's time is over.
type wired struct {
	*link
	of *life
}

// RoundTrip is called by goroutines of internal/upstream/client.
func (u *wired) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, answer := decodeRequest(body), make(chan *call, 1)
	if spoil := u.w.Fault.called; spoil != nil && m.Reserve != nil {
		spoil(&m)
		body = m.Append(nil)
	}
	timeout, err := strconv.ParseInt(r.Header.Get("Connect-Timeout-Ms"), 10, 64)
	if err != nil {
		return nil, err
	}
	u.w.mail.post(post{name: "link " + u.from, n: m.Seq, do: func() {
		c := &call{link: u.link, ctx: context.Background(), items: u.w.items(m.Wants)}
		c.serve = func(c *call, by *life) bool {
			by.serves(c, r.URL.Path, timeout, body)
			return true // also that it refuses the call
		}
		c.arrive = func(c *call) { u.arrive(r.Context(), c, answer) }
		u.of.sends(c)
	}})
	select {
	case c := <-answer:
		return &http.Response{StatusCode: c.code, Status: http.StatusText(c.code), Body: io.NopCloser(bytes.NewReader(c.body)), Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// arrive takes an answer, unless its caller does not wait for it any more.
func (u *wired) arrive(ctx context.Context, c *call, answer chan<- *call) {
	if u.of.over || ctx.Err() != nil {
		u.w.ref.lostReply(c)
		return
	}
	u.of.receives(c)
	answer <- c
}

// items are the wants of a call.
func (w *World) items(wants []wire.Want) []item {
	items := make([]item, len(wants))
	for i := range items {
		m := &wants[i]
		r := w.rules.find(m.Rule)
		items[i] = item{key: r.counter(string(m.Key)), group: m.Group, slots: r.slots(), want: m.For(r.Limit)}
	}
	return items
}

// serves has the service answer a call as it travels, within so many milliseconds.
func (l *life) serves(c *call, path string, timeout int64, body []byte) bool {
	ctx := context.WithValue(c.ctx, witnessed{}, c)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.RemoteAddr = c.link.address()
	req.Header.Set("Content-Type", "application/proto")
	req.Header.Set("Connect-Timeout-Ms", strconv.FormatInt(timeout, 10))
	out := &answer{header: http.Header{}, code: http.StatusOK}
	l.handler.ServeHTTP(out, req)
	c.body, c.code = out.body, out.code
	if out.code != http.StatusOK || path != edgecalls.AcquirePath {
		return out.code == http.StatusOK
	}
	resp := decodeResponse(c.body)
	for i := range c.items {
		c.items[i].grant = resp.Grants[i].Bounded(wire.LongestDuration)
	}
	return true
}

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
