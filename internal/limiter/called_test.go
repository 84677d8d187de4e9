package limiter_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// Called gets the store that a call states and where it comes from, in each encoding, and the answer has
// what it returns. A repeated call is not one more.
func TestCalledWithStore(t *testing.T) {
	var last limiter.RegionCall
	r := newRegion(t, func(c *limiter.Config) {
		c.Called = func(c limiter.RegionCall) bool { last = c; return c.Store == 1<<63+8 }
	})
	for i, store := range []uint64{7, 1<<63 + 8, 0} {
		doubled := i == 1
		for _, contentType := range []string{"application/proto", "application/json"} {
			req := r.call()
			req.Region, req.RegionStore = "eu", store
			body := req.Append(nil)
			if contentType == "application/json" {
				body = fmt.Appendf(nil, `{"protocol":1,"holder":"%s","seq":"%d","region":"eu","regionStore":"%d"}`,
					base64.StdEncoding.EncodeToString(req.Holder), req.Seq, store)
			}
			for _, told := range []bool{doubled, false} { // the second one is a copy
				w := r.raw(contentType, body)
				got := strings.Contains(w.Body.String(), `"regionDoubled":true`)
				if contentType == "application/proto" {
					var m wire.Response
					if err := m.Decode(w.Body.Bytes()); err != nil {
						t.Fatal(err)
					}
					got = m.RegionDoubled
				}
				if w.Code != 200 || got != told {
					t.Errorf("%s, store %d: %d, told %v, want %v", contentType, store, w.Code, got, told)
				}
			}
			if last.Store != store || last.Seq != req.Seq || contentType == "application/proto" && last.From == "" {
				t.Errorf("%s: %+v", contentType, last)
			}
		}
	}
}

// Called gets each call once, with those replies of its own store that the region acknowledges.
func TestCalled(t *testing.T) {
	type call struct {
		region   string
		seq, ack uint64
	}
	var received []call
	r := newRegion(t, func(c *limiter.Config) {
		c.Called = func(c limiter.RegionCall) bool {
			received = append(received, call{c.Region, c.Seq, c.Ack})
			return false
		}
	})
	ours := r.store.Epoch()
	for _, one := range []struct {
		region     string
		epoch, seq uint64
	}{
		{"eu", 0, 1}, {"eu", ours, 2}, {"eu", ours, 2}, {"", ours, 3}, {"eu", ours + 1, 4}, {"eu", ours, 5},
	} {
		req := r.call()
		req.Region, req.Epoch, req.Seq, req.Ack = one.region, one.epoch, one.seq, one.seq-1
		if _, refused := r.post(req); refused != "" {
			t.Fatal(refused)
		}
	}
	want := []call{{"eu", 1, 0}, {"eu", 2, 1}, {"eu", 4, 0}, {"eu", 5, 4}}
	if !slices.Equal(received, want) {
		t.Errorf("%v, want %v: a reply of another store is not acknowledged to this one", received, want)
	}
}
