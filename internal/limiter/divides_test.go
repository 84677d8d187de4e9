package limiter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limiter"
)

// divides makes a service one that divides limits among regions.
func divides(c *limiter.Config) { c.Divides = true }

// Where limits are divided, a call is one of a region, in whatever encoding.
func TestCallsOfNoRegionAreRefused(t *testing.T) {
	r := newRegion(t, divides)
	for region, refusal := range map[string]string{
		"eu": "", "": "region: is missing", "eu/us": `region: \"eu/us\" is no name of a region`, "{region}": "is no name of a region",
		strings.Repeat("r", 65): "is no name of a region",
	} {
		q := r.call(want("page", "k", 1))
		q.Region = region
		if out, refused := r.post(q); (out != nil) != (refusal == "") || !strings.Contains(refused, refusal) {
			t.Errorf("region %q: %+v, %s; want %q", region, out, refused, refusal)
		}
		r.seq++
		w := r.raw("application/json", fmt.Appendf(nil, `{"protocol": 1, "holder": "YWFhYWFhYWFhYWFhYWFhYQ==", "seq": %d, "region": %q}`, r.seq, region))
		if w.Code == 200 != (refusal == "") || !strings.Contains(w.Body.String(), refusal) {
			t.Errorf("region %q in JSON: %d %s; want %q", region, w.Code, w.Body, refusal)
		}
	}
}
