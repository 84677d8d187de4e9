package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func TestHolding(t *testing.T) {
	terms := lease.NewTerms(fatal.Get(limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 20}))(t), lease.Leased, 0, 0, 0)
	var h Holding
	enter := func(now lease.Millis, inUse int64, want Verdict) {
		t.Helper()
		got := Admit
		if now >= h.Until || inUse == h.May {
			got = h.Missed(now, false)
		}
		if got != want {
			t.Fatalf("at %d with %d in use: %d, not %d; %+v", now, inUse, got, want, h)
		}
	}
	enter(1000, 0, Wait)
	if w := h.Ask(&terms, 1000, 0, 1, 16); w != (lease.Want{Holding: 0, Need: 1, Waiting: 16, Want: 18}) {
		t.Fatalf("asks %+v: what waits, and an eighth in reserve", w)
	}
	enter(1001, 0, Wait)
	h.Apply(&terms, 1004, 1000, lease.Grant{Status: lease.OK, Granted: 18, TTL: 10_000}, 100)
	enter(1004, 16, Admit)
	enter(1004, 18, Wait)
	enter(11_000, 1, Wait) // lapsed

	if w := h.Ask(&terms, 1100, 8, 0, 0); w != (lease.Want{Holding: 9, Want: 9}) {
		t.Errorf("asks %+v", w)
	}
	enter(1101, 9, Wait) // what it gave up may be another's already

	h.Apply(&terms, 1104, 1000, lease.Grant{Status: lease.OK, Granted: 18, TTL: 10_000}, 100)
	enter(1104, 9, Wait) // an older reply, late or repeated, gives nothing back
	h.Apply(&terms, 1104, 1100, lease.Grant{Status: lease.Denied, Granted: 9, TTL: 10_000, AskAfter: 50}, 100)
	enter(1105, 8, Admit)
	enter(1105, 9, Reject)
	if got := h.Missed(1105, true); got != Wait {
		t.Errorf("slots came back: %d", got)
	}
	enter(1154, 9, Wait)

	h.Ask(&terms, 2000, 9, 0, 0)
	h.Apply(&terms, 2004, 2000, lease.Grant{Status: lease.Unavailable}, 100)
	enter(2005, 8, Admit) // nothing changed
	enter(2005, 9, Unanswered)
	if h.Due(&terms, 2103, 9) {
		t.Error("asks again at once, though nobody decided")
	}
	enter(2104, 9, Wait)
}
