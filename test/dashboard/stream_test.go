package dashboard

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/test/kit/browser"
)

// A connection on which nothing comes any more is noticed, what one sees is said to be old, and a stream that breaks comes
// back.
func TestStreamComesBack(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann")
	s.Open("/")
	s.See("orders")
	s.region.Pause()
	s.health("unknown", "nothing has come for 10 s")
	s.See("orders")
	s.region.Resume()
	s.Lose("nothing has come for 10 s")
	s.well("silence")
	s.region.Kill()
	s.See("does not answer")
	s.region.Start()
	s.Lose("does not answer")
	s.See("orders")
	s.Bad() // it tells of calls that nobody answered
}

// cut is the body of a stream that ends, or breaks, in the middle of an event.
type cut struct {
	io.ReadCloser
	left int64
	end  error
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, c.end
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// An event that is cut in the middle is not shown, and the stream is opened again.
func TestCutStream(t *testing.T) {
	s := start(t, rules)
	s.traffic("/orders", "ann")
	to := &url.URL{Scheme: "http", Host: s.region.Admin}
	var streams atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path == "/v1/stream" {
				switch n := streams.Add(1); {
				case n <= 2: // the first event has about 100 bytes
					r.Body = &cut{r.Body, 30 + 200*(n-1), io.EOF}
				case n <= 4:
					r.Body = &cut{r.Body, 30 + 200*(n-3), io.ErrUnexpectedEOF}
				}
			}
			return nil
		},
	})
	t.Cleanup(proxy.Close)
	s.Browser = browser.Start(t, proxy.URL)
	s.Open("/")
	s.See("the stream has ended")
	s.See("the stream broke")
	s.Lose("the stream broke")
	s.See("orders")
	if n := streams.Load(); n != 5 {
		t.Errorf("%d streams, want 5", n)
	}
	s.Bad() // it tells of streams that broke
}
