package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// rejecting are limits that reject every request of a key, after the first one at
// the latest.
var rejecting = map[string]string{
	"exact":       `"limit":"1/1h","algorithm":"fixed_window","consistency":"exact","timeout":"500ms"`,
	"zero":        `"limit":"0/1h","algorithm":"fixed_window","consistency":"exact","timeout":"500ms"`,
	"leased":      `"limit":"1/1h","algorithm":"fixed_window","timeout":"500ms"`,
	"bucket":      `"limit":"1/1h","algorithm":"token_bucket","consistency":"exact","timeout":"500ms"`,
	"optimistic":  `"limit":"1/1h","algorithm":"fixed_window","consistency":"optimistic","timeout":"500ms"`,
	"pop":         `"limit":"1/1h","algorithm":"fixed_window","scope":"pop"`,
	"concurrency": `"limit":0,"algorithm":"concurrency","timeout":"500ms"`,
	"other line":  `"limit":"1/1h","algorithm":"fixed_window","consistency":"exact","timeout":"900ms"`,
}

// starving are two rules in either order: one that rejects every request of the
// user greedy, and an exact one of 5 per hour for all.
func starving(limit, order string) string {
	rejects := fmt.Sprintf(`{"name":"a","match":{"header":{"x-user":"greedy"}},"key":[{"header":"x-user"}],%s}`, limit)
	shared := `{"name":"b","key":[],"limit":"5/1h","algorithm":"fixed_window","consistency":"exact","timeout":"500ms"}`
	if order == "last" {
		rejects, shared = shared, rejects
	}
	return `{"rules":[` + rejects + `,` + shared + `]}`
}

// However many requests one rule rejects, another one has all of its limit for those
// that nobody rejects: while 300 requests per second of one user are rejected, 20
// others get what is left of 5, whatever the round trip is.
func TestRejectedRequestsStarveNobody(t *testing.T) {
	for name, limit := range rejecting {
		for _, order := range []string{"first", "last"} {
			for _, rtt := range []lease.Millis{1, 20, 60} {
				t.Run(fmt.Sprint(name, " ", order, " ", rtt), func(t *testing.T) {
					for phase := range lease.Millis(2) {
						w := newWorld(t, 2, starving(limit, order))
						greedy, honest := w.starve(rtt, phase*42)
						if greedy > 1 || greedy+honest != 5 {
							t.Errorf("phase %d: admitted %d of the greedy user and %d of 20 others, want 5 in all, at most one of them greedy", phase, greedy, honest)
						}
					}
				})
			}
		}
	}
}

// starve sends 3 s of requests of which every tenth millisecond brings three of one
// user, to both workers, and from the first second on every tenth of a second one of
// another user, at that phase. Every call is answered after rtt. It returns how many were admitted.
func (w *world) starve(rtt, phase lease.Millis) (greedy, honest int) {
	var asked [2][]*Request
	for at := range lease.Millis(3500) {
		w.millisecond(rtt)
		if at%10 < 3 && at < 3000 {
			asked[0] = append(asked[0], w.request(int(at)%2, "/", "greedy"))
		}
		if at%100 == phase && at > 1000 && at < 3000 {
			asked[1] = append(asked[1], w.request(int(at/100)%2, "/", fmt.Sprint("user", at)))
		}
	}
	for _, r := range append(asked[0], asked[1]...) {
		if r.Outcome == Wait {
			w.t.Fatal("a request still waits")
		}
	}
	return admittedOf(asked[0]), admittedOf(asked[1])
}
